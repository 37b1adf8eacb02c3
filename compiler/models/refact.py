"""refact: as llama, with scores that fall with distance in place of rotation."""

from ggufc.compiler.models import llama
from ggufc.compiler.models.blocks import embedding, logits, pre_norm_layers, sloped_attention
from ggufc.compiler.models.network import Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), sloped_attention, llama.mlp))
