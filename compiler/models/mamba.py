"""mamba: state spaces without attention or MLPs; Mamba and Falcon Mamba."""

from ggufc.compiler.models.blocks import (
    channel_state_space,
    embedding,
    logits,
    pre_norm_mixers,
)
from ggufc.compiler.models.network import Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_mixers(net, embedding(net), channel_state_space))
