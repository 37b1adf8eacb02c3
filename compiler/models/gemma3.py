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
    logits,
    pre_norm_layers,
    qkv,
    rms_norm,
    rotate,
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
    q = rms_norm(layer, "attn_q_norm", q)
    k = rms_norm(layer, "attn_k_norm", k)
    q, k = rotate(layer, q, k, "half")
    out = attention_output(layer, attend(layer, q, k, v, score_scale(layer)))
    return rms_norm(layer, "post_attention_norm", out)


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP, and a norm after it."""
    return rms_norm(layer, "post_ffw_norm", gated_mlp(layer, x, "gelu_tanh"))


def score_scale(layer: Layer) -> float:
    """What scores are multiplied by."""
    hp = layer.hparams
    if hp.n_layers == LAYERS_OF_27B:
        return 1.0 / math.sqrt(hp.dim / layer.params.n_heads)
    return layer.params.attention_scale
