"""nemotron: layer norms, part of a head rotated, and an MLP that has no gate and squares what is
above 0."""

from ggufc.compiler.models.blocks import (
    embedding,
    layer_norm,
    logits,
    plain_mlp,
    pre_norm_layers,
    rotated_attention,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = pre_norm_layers(net, embedding(net), attention, mlp, layer_norm)
    return logits(net, x, layer_norm)


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys."""
    return rotated_attention(layer, x, "half")


def mlp(layer: Layer, x: Value) -> Value:
    """The MLP without a gate."""
    return plain_mlp(layer, x, "relu_squared")
