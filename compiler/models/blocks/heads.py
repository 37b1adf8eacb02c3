"""Queries, keys and values: made, normed, limited and rotated."""

from ggufc.compiler.models.blocks.basic import biased, linear, split, width
from ggufc.compiler.models.blocks.norms import Norm, bare_layer_norm, rms_norm
from ggufc.compiler.models.network import Layer
from ggufc.ir import Value, max_dim


def heads(layer: Layer, name: str, x: Value, n: int) -> Value:
    """`x` [T, n * D] seen as [T, n, D]."""
    shape = (x.type.shape[0], n, width(x) // n)
    return layer.emit("reshape", x, shape=shape, name=f"{name}.heads")


def flat(layer: Layer, name: str, x: Value) -> Value:
    """`x` [T, n, D] seen as [T, n * D]."""
    shape = (x.type.shape[0], max_dim(x.type.shape[1]) * width(x))
    return layer.emit("reshape", x, shape=shape, name=f"{name}.flat")


def qkv(layer: Layer, x: Value) -> tuple[Value, Value, Value]:
    """Queries [T, n_heads, head_dim], keys and values [T, n_kv_heads, head_dim or value_dim] of
    `x`, from three matrices or from one that holds all three."""
    params = layer.params
    counts = {"attn_q": params.n_heads, "attn_k": params.n_kv_heads, "attn_v": params.n_kv_heads}
    widths = {"attn_q": params.head_dim, "attn_k": params.head_dim, "attn_v": params.value_dim}
    sizes = {name: count * widths[name] for name, count in counts.items()}
    if layer.tensors.has(f"{layer.prefix}attn_qkv.weight"):
        parts = split(layer, linear(layer, "attn_qkv", x, sum(sizes.values())), sizes)
        parts = {name: biased(layer, name, part) for name, part in parts.items()}
    else:
        parts = {name: linear(layer, name, x, size) for name, size in sizes.items()}
    q, k, v = (heads(layer, name, part, counts[name]) for name, part in parts.items())
    return q, k, v


def head_norms(layer: Layer, q: Value, k: Value, norm: Norm = rms_norm) -> tuple[Value, Value]:
    """Queries and keys with each head normed by the same weights."""
    return norm(layer, "attn_q_norm", q), norm(layer, "attn_k_norm", k)


def projection_norms(
    layer: Layer, q: Value, k: Value, norm: Norm = rms_norm
) -> tuple[Value, Value]:
    """Queries and keys normed over all heads together."""

    def normed(name: str, x: Value) -> Value:
        count = max_dim(x.type.shape[1])
        return heads(
            layer, f"{name}.normed", norm(layer, f"{name}_norm", flat(layer, name, x)), count
        )

    return normed("attn_q", q), normed("attn_k", k)


def each_head_norms(layer: Layer, q: Value, k: Value) -> tuple[Value, Value]:
    """Queries and keys with every head normed to mean 0 and variance 1, times weights of its own,
    where the file has some."""

    def normed(name: str, x: Value) -> Value:
        full = f"{layer.prefix}{name}_norm.weight"
        if not layer.tensors.has(full):
            return x
        count = max_dim(x.type.shape[1])
        weight = layer.tensors.flat_vector(full, count, width(x))
        x = flat(layer, f"{name}.normed", bare_layer_norm(layer, f"{name}_norm", x))
        x = layer.emit("scale_columns", x, weight, name=f"{name}.scaled")
        return heads(layer, f"{name}.scaled", x, count)

    return normed("attn_q", q), normed("attn_k", k)


def clamped(layer: Layer, q: Value, k: Value, v: Value) -> tuple[Value, Value, Value]:
    """Queries, keys and values kept within the model's limit, where it has one."""
    limit = layer.hparams.kqv_clamp
    if limit == 0.0:
        return q, k, v
    q, k, v = (
        layer.emit("clamp", x, limit=limit, name=f"attn_{name}.clamped")
        for name, x in (("q", q), ("k", k), ("v", v))
    )
    return q, k, v


def rotate(layer: Layer, q: Value, k: Value, pairing: str) -> tuple[Value, Value]:
    """Queries and keys turned by the angles of their positions."""
    return rotated(layer, "attn_q", q, pairing), rotated(layer, "attn_k", k, pairing)


def rotated(layer: Layer, name: str, x: Value, pairing: str) -> Value:
    """`x` [T, n, D] turned by the angles of its positions; `pairing` is "interleaved" (elements 2i
    and 2i + 1 make a pair) or "half" (i and i + half)."""
    table = layer.net.rope_table(layer.params)
    return layer.emit("rope", x, table, pairing=pairing, name=f"{name}.rope")
