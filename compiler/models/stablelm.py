"""stablelm: layer norms and a gated MLP; part of a head rotates.

The largest model norms each head of q and k, and has attention and MLP side by side: its files have
no second norm.
"""

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    each_head_norms,
    embedding,
    gated_mlp,
    layer_norm,
    logits,
    parallel_layers,
    pre_norm_layers,
    qkv,
    rotate,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    layers = pre_norm_layers if net.tensors.has("blk.0.ffn_norm.weight") else parallel_layers
    return logits(net, layers(net, embedding(net), attention, mlp, layer_norm), layer_norm)


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys."""
    q, k, v = qkv(layer, x)
    q, k = rotate(layer, *each_head_norms(layer, q, k), "half")
    return attention_output(layer, attend(layer, q, k, v))


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP."""
    return gated_mlp(layer, x, "silu")
