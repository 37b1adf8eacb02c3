"""gemma3, the text model: norms before and after each branch, and every sixth layer sees the
whole context.

The layers between see a window and rotate by a base of their own.
"""

import math

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    embedding,
    gated_mlp,
    head_norms,
    logits,
    pre_norm_layers,
    qkv,
    rms_norm,
    rotate,
    shared_width_scale,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value

# The 27B model alone scales its scores by the width over the number of heads, and no key says so.
LAYERS_OF_27B = 62


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = embedding(net, scale=math.sqrt(net.hparams.dim))
    return logits(net, pre_norm_layers(net, x, attention, mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with normed and rotated queries and keys, and a norm after it."""
    q, k, v = qkv(layer, x)
    q, k = rotate(layer, *head_norms(layer, q, k), "half")
    scale = shared_width_scale(layer) if layer.hparams.n_layers == LAYERS_OF_27B else None
    out = attention_output(layer, attend(layer, q, k, v, scale))
    return rms_norm(layer, "post_attention_norm", out)


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP, and a norm after it."""
    return rms_norm(layer, "post_ffw_norm", gated_mlp(layer, x, "gelu_tanh"))
