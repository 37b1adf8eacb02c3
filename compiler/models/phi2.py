"""phi2: attention and MLP side by side behind one norm, biases everywhere, part of a head
rotated."""

from ggufc.compiler.models.blocks import (
    embedding,
    layer_norm,
    logits,
    parallel_layers,
    plain_mlp,
    rotated_attention,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, parallel_layers(net, embedding(net), attention, mlp), layer_norm)


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys."""
    return rotated_attention(layer, x, "half")


def mlp(layer: Layer, x: Value) -> Value:
    """The MLP without a gate."""
    return plain_mlp(layer, x, "gelu_tanh")
