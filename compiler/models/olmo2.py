"""olmo2 and olmo3: norms only after each branch, and of all heads of q and k together.

Olmo 3 sees a window in three layers of four.
"""

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    embedding,
    gated_mlp,
    logits,
    post_norm_layers,
    projection_norms,
    qkv,
    rotate,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, post_norm_layers(net, embedding(net), attention, mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with normed and rotated queries and keys."""
    q, k, v = qkv(layer, x)
    q, k = rotate(layer, *projection_norms(layer, q, k), "half")
    return attention_output(layer, attend(layer, q, k, v))


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP."""
    return gated_mlp(layer, x, "silu")
