"""exaone4: norms only after each branch, and per head of q and k.

Where some layers see a window, those that see the whole context do not rotate.
"""

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    embedding,
    gated_mlp,
    head_norms,
    logits,
    post_norm_layers,
    qkv,
    rotate,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, post_norm_layers(net, embedding(net), attention, mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with normed and, perhaps, rotated queries and keys."""
    q, k, v = qkv(layer, x)
    q, k = head_norms(layer, q, k)
    if layer.params.window or not layer.hparams.has_windows:
        q, k = rotate(layer, q, k, "half")
    return attention_output(layer, attend(layer, q, k, v))


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP."""
    return gated_mlp(layer, x, "silu")
