"""falcon: attention and MLP side by side; the larger models have a norm for each of them.

One matrix holds q, k and v, and GELU is exact.
"""

from ggufc.compiler.models.blocks import (
    add_branches,
    embedding,
    layer_norm,
    logits,
    plain_mlp,
    rotated_attention,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = embedding(net)
    for layer in net.layers():
        normed = layer_norm(layer, "attn_norm", x)
        x = add_branches(layer, x, attention(layer, x, normed), plain_mlp(layer, normed, "gelu"))
    return logits(net, x, layer_norm)


def attention(layer: Layer, x: Value, normed: Value) -> Value:
    """Attention with rotated queries and keys: of `x` by its own norm, or of `normed`."""
    if layer.tensors.has(f"{layer.prefix}attn_norm_2.weight"):
        normed = layer_norm(layer, "attn_norm_2", x)
    return rotated_attention(layer, normed, "half")
