"""qwen3: as qwen2 without biases, with every head of q and k normed before it is rotated."""

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    embedding,
    gated_mlp,
    head_norms,
    logits,
    pre_norm_layers,
    qkv,
    rotate,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), attention, mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with normed and rotated queries and keys."""
    q, k, v = qkv(layer, x)
    q, k = rotate(layer, *head_norms(layer, q, k), "half")
    return attention_output(layer, attend(layer, q, k, v))


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP."""
    return gated_mlp(layer, x, "silu")
