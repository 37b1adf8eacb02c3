"""Attention to the cache."""

import math

import numpy as np

from ggufc.compiler.models.blocks.basic import linear
from ggufc.compiler.models.blocks.heads import flat, qkv, rotate
from ggufc.compiler.models.network import Layer
from ggufc.ir import Value, Weight


def attend(
    layer: Layer,
    q: Value,
    k: Value,
    v: Value,
    scale: float | None = None,
    slopes: Weight | None = None,
    sinks: Weight | None = None,
) -> Value:
    """Attention of `q` to the cache, once `k` and `v` are in it, with all heads side by side:
    [T, n_heads * value_dim]. `scale` is the model's own unless given; `slopes` and `sinks`
    [n_heads] are those of the op. In a model that is not causal, attention to the whole text."""
    if not layer.hparams.is_causal:
        return attend_text(layer, q, k, v, scale, slopes)
    layer.b.emit("kv_write", k, v, layer.net.positions, layer.net.sequences, *layer.caches)
    return look_up(layer, q, scale, slopes, sinks)


def look_up(
    layer: Layer,
    q: Value,
    scale: float | None = None,
    slopes: Weight | None = None,
    sinks: Weight | None = None,
) -> Value:
    """As `attend`, where keys and values are in the cache already."""
    params = layer.params
    out = layer.emit(
        "attention",
        q,
        layer.net.positions,
        layer.net.sequences,
        *layer.caches,
        slopes=slopes,
        sinks=sinks,
        scale=params.attention_scale if scale is None else scale,
        window=params.window,
        softcap=layer.hparams.attention_softcap,
        name="attn",
    )
    return flat(layer, "attn", out)


def attend_text(
    layer: Layer, q: Value, k: Value, v: Value, scale: float | None, slopes: Weight | None
) -> Value:
    """As `attend`, to all tokens of the text, or in a layer with a window to those that are at most
    half of it away."""
    params = layer.params
    out = layer.emit(
        "bidirectional_attention",
        q,
        k,
        v,
        layer.net.positions,
        layer.net.lengths,
        slopes=slopes,
        scale=params.attention_scale if scale is None else scale,
        window=params.window,
        softcap=layer.hparams.attention_softcap,
        name="attn",
    )
    return flat(layer, "attn", out)


def alibi_slopes(layer: Layer) -> Weight | None:
    """By how much the scores of each head fall with distance (ALiBi, Press et al. 2021), None in a
    model without that.

    Powers of 2^-(bias / n) for n heads, a power of two; where there are more, those between them,
    from a step of half the size, follow."""
    count, bias = layer.params.n_heads, layer.hparams.max_alibi_bias
    if bias == 0.0:
        return None
    first = 1 << (count.bit_length() - 1)
    exponents = [(i + 1) * bias / first for i in range(first)]
    exponents += [(2 * i + 1) * bias / (2 * first) for i in range(count - first)]
    slopes = np.array([2.0**-exponent for exponent in exponents], np.float32)
    return layer.tensors.constant(f"attn.slopes.{count}", slopes)


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


def sloped_attention(layer: Layer, x: Value) -> Value:
    """Attention whose scores fall with distance, in place of rotation: [T, dim]."""
    return attention_output(layer, attend(layer, *qkv(layer, x), slopes=alibi_slopes(layer)))
