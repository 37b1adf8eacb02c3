"""falcon-h1: attention and a state space side by side in every layer, then a gated MLP.

The multipliers of the original are in the weights of the file.
"""

from ggufc.compiler.models.blocks import (
    add,
    embedding,
    gated_mlp,
    head_state_space,
    logits,
    pre_norm_layers,
    rotated_attention,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), mixer, mlp))


def mixer(layer: Layer, x: Value) -> Value:
    """The sum of both."""
    return add(layer, "mixed", rotated_attention(layer, x, "half"), head_state_space(layer, x))


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP."""
    return gated_mlp(layer, x, "silu")
