"""mamba2: as mamba, with heads that have one rate each."""

from ggufc.compiler.models.blocks import embedding, head_state_space, logits, pre_norm_mixers
from ggufc.compiler.models.network import Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_mixers(net, embedding(net), head_state_space))
