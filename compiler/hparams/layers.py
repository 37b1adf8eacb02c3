"""The hyperparameters that may differ from layer to layer."""

import math
from dataclasses import dataclass

from ggufc.compiler.gguf import GGUFArray
from ggufc.compiler.gguf.constants import INTEGER_KINDS
from ggufc.compiler.hparams.experts import read_experts
from ggufc.compiler.hparams.keys import Keys
from ggufc.compiler.hparams.latent import latent_scale, read_latent
from ggufc.compiler.hparams.limits import (
    MAX_CONTEXT,
    MAX_HEAD_DIM,
    MAX_HEADS,
    MAX_HIDDEN_DIM,
    MAX_LAYERS,
    MAX_SCALE,
)
from ggufc.compiler.hparams.params import LayerParams, Rope, Xielu
from ggufc.compiler.hparams.recurrent import attending, may_recur, read_recurrent
from ggufc.compiler.hparams.rope import read_ropes

MAX_COEFFICIENT = 1e4


@dataclass(frozen=True)
class HeadShape:
    """Widths of heads, and their rotary embedding."""

    head_dim: int
    value_dim: int
    rope: Rope


def read_layers(keys: Keys, n_layers: int, dim: int) -> tuple[LayerParams, ...]:
    """The layers, from the first to the last; `dim` is the width of the model."""
    least = 0 if may_recur(keys) else 1
    n_heads = keys.per_layer("attention.head_count", n_layers, MAX_HEADS, low=least)
    n_kv_heads = read_kv_heads(keys, n_heads, least)
    recurrent = read_recurrent(keys, n_kv_heads, dim)
    attending_heads = attending(keys, n_kv_heads, recurrent)
    hidden = keys.per_layer("feed_forward_length", n_layers, MAX_HIDDEN_DIM, low=least)
    windows = read_windows(keys, n_layers)
    whole, local = read_head_shapes(keys, dim, n_heads)
    caches = read_caches(keys, windows)
    scale = keys.real("attention.scale", 0.0, MAX_SCALE, 0.0)
    xielus = read_xielus(keys, n_layers)
    experts = read_experts(keys, hidden)
    latent = read_latent(keys, whole.rope, whole.head_dim, whole.value_dim)
    if latent and not scale:
        scale = latent_scale(keys, latent, whole.rope)
    shapes = [local if window else whole for window in windows]
    return tuple(
        LayerParams(
            n_heads[i],
            attending_heads[i],
            shapes[i].head_dim,
            shapes[i].value_dim,
            hidden[i],
            windows[i],
            scale or 1.0 / math.sqrt(shapes[i].head_dim),
            caches[i],
            shapes[i].rope,
            xielus[i],
            experts[i],
            latent,
            recurrent[i],
        )
        for i in range(n_layers)
    )


def read_kv_heads(keys: Keys, n_heads: tuple[int, ...], least: int) -> tuple[int, ...]:
    """The number of key and value heads of each layer, a divisor of that of query heads; 0, where
    `least` allows it, for a layer without attention."""
    name = "attention.head_count_kv"
    n_kv_heads = keys.per_layer(name, len(n_heads), MAX_HEADS, default=n_heads, low=least)
    for heads, kv_heads in zip(n_heads, n_kv_heads, strict=True):
        if kv_heads and (heads == 0 or heads % kv_heads):
            raise keys.fail(name, kv_heads, f"are divisors of the {heads} query heads")
    return n_kv_heads


def read_windows(keys: Keys, n_layers: int) -> list[int]:
    """How many positions each layer sees; 0 for all."""
    window = keys.integer("attention.sliding_window", 0, MAX_CONTEXT, 0)
    return [window if windowed else 0 for windowed in read_window_pattern(keys, n_layers)]


def read_window_pattern(keys: Keys, n_layers: int) -> list[bool]:
    """For each layer whether it sees a window only: a list of booleans, or a number n that leaves
    every n-th layer (the last of each n) the whole context; 0 leaves it to none."""
    name = "attention.sliding_window_pattern"
    if isinstance(keys.metadata.get(keys.full(name)), GGUFArray):
        return [bool(flag) for flag in keys.array(name, INTEGER_KINDS | {"bool"}, n_layers)]
    period = keys.integer(name, 0, MAX_LAYERS, 0)
    return [period == 0 or i % period < period - 1 for i in range(n_layers)]


def read_head_shapes(keys: Keys, dim: int, n_heads: tuple[int, ...]) -> tuple[HeadShape, HeadShape]:
    """Heads of layers that see the whole context, and of those that see a window."""
    name = "attention.{}_length{}"
    share = default_head_dim(keys, dim, n_heads)
    head_dim = keys.integer(name.format("key", ""), 1, MAX_HEAD_DIM, share)
    value_dim = keys.integer(name.format("value", ""), 1, MAX_HEAD_DIM, share)
    local_dim = keys.integer(name.format("key", "_swa"), 1, MAX_HEAD_DIM, head_dim)
    local_value_dim = keys.integer(name.format("value", "_swa"), 1, MAX_HEAD_DIM, value_dim)
    whole, local = read_ropes(keys, head_dim, local_dim)
    return HeadShape(head_dim, value_dim, whole), HeadShape(local_dim, local_value_dim, local)


def default_head_dim(keys: Keys, dim: int, n_heads: tuple[int, ...]) -> int:
    """The width of a head where no key gives it: the heads of a layer share the model's width. One
    that is as good as any where no layer has heads."""
    count = next((n for n in n_heads if n), 0)
    if count == 0:
        return 2
    if keys.full("attention.key_length") not in keys.metadata and dim % count:
        raise keys.fail("attention.head_count", count, f"are divisors of the width {dim}")
    return max(1, dim // count)


def read_caches(keys: Keys, windows: list[int]) -> list[int]:
    """The layer whose keys and values each layer attends to.

    The last layers, as many as a key says, have none: they use those of the last of the others
    that sees as much as they do."""
    n = len(windows)
    name = "attention.shared_kv_layers"
    first_shared = n - keys.integer(name, 0, n - 1, 0)
    caches = list(range(first_shared))
    for i in range(first_shared, n):
        alike = [j for j in range(first_shared) if windows[j] == windows[i]]
        if not alike:
            raise keys.fail(
                name,
                n - first_shared,
                f"are numbers that leave layer {i} one like it to share with",
            )
        caches.append(alike[-1])
    return caches


def read_xielus(keys: Keys, n_layers: int) -> list[Xielu] | list[None]:
    """The coefficients of every layer's activation, where it is of this kind. Files hold the
    alphas as they were trained: before the softplus that keeps them positive."""
    if not keys.has("xielu.alpha_n"):
        return [None] * n_layers
    alpha_n, alpha_p, beta, eps = (
        keys.reals_per_layer(f"xielu.{name}", n_layers, MAX_COEFFICIENT)
        for name in ("alpha_n", "alpha_p", "beta", "eps")
    )
    return [
        Xielu(beta[i] + softplus(alpha_n[i]), softplus(alpha_p[i]), beta[i], eps[i])
        for i in range(n_layers)
    ]


def softplus(x: float) -> float:
    """ln(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
