"""gpt2: learned positions, one matrix for q, k and v, and an MLP without a gate."""

from ggufc.compiler.models.blocks import (
    add_positions,
    attend,
    attention_output,
    embedding,
    layer_norm,
    logits,
    plain_mlp,
    pre_norm_layers,
    qkv,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = add_positions(net, embedding(net))
    return logits(net, pre_norm_layers(net, x, attention, mlp, layer_norm), layer_norm)


def attention(layer: Layer, x: Value) -> Value:
    """Attention to keys that know their position from the embedding."""
    return attention_output(layer, attend(layer, *qkv(layer, x)))


def mlp(layer: Layer, x: Value) -> Value:
    """The MLP without a gate."""
    return plain_mlp(layer, x, "gelu_tanh")
