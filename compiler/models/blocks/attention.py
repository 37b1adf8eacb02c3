"""Attention to the cache."""

import math

from ggufc.compiler.models.blocks.basic import linear
from ggufc.compiler.models.blocks.heads import flat, qkv, rotate
from ggufc.compiler.models.network import Layer
from ggufc.ir import Value


def attend(layer: Layer, q: Value, k: Value, v: Value, scale: float | None = None) -> Value:
    """Attention of `q` to the cache, once `k` and `v` are in it, with all heads side by side:
    [T, n_heads * value_dim]. `scale` is the model's own unless given."""
    net, params = layer.net, layer.params
    place = net.positions, net.sequences, *layer.caches
    layer.b.emit("kv_write", k, v, *place)
    out = layer.emit(
        "attention",
        q,
        *place,
        scale=params.attention_scale if scale is None else scale,
        window=params.window,
        softcap=layer.hparams.attention_softcap,
        name="attn",
    )
    return flat(layer, "attn", out)


def shared_width_scale(layer: Layer) -> float:
    """What scores are multiplied by where a head counts as its share of the model's width,
    whatever its own is."""
    return 1.0 / math.sqrt(layer.hparams.dim / layer.params.n_heads)


def attention_output(layer: Layer, x: Value) -> Value:
    """The heads' outputs mixed into the width of the residual stream: [T, dim]."""
    return linear(layer, "attn_output", x, layer.hparams.dim)


def rotated_attention(layer: Layer, x: Value, pairing: str) -> Value:
    """Attention with rotated queries and keys: [T, dim]."""
    q, k, v = qkv(layer, x)
    q, k = rotate(layer, q, k, pairing)
    return attention_output(layer, attend(layer, q, k, v))
