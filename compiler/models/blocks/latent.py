"""Attention to latent vectors: one for all heads, cached in place of keys and values.

Each head's own matrices are applied to its query, before, and to its mixture of latent vectors,
after (the absorbed form of multi-head latent attention, DeepSeek-AI 2024, section 2.1). Where a
file does not have these apart, keys and values are made of the vectors, and cached.
"""

from ggufc.compiler.hparams import Latent
from ggufc.compiler.models.blocks.attention import attend, attention_output
from ggufc.compiler.models.blocks.basic import linear, split
from ggufc.compiler.models.blocks.heads import flat, heads, rotated
from ggufc.compiler.models.blocks.norms import rms_norm
from ggufc.compiler.models.network import Layer
from ggufc.ir import Value, max_dim


def latent_attention(layer: Layer, x: Value, pairing: str) -> Value:
    """Attention, of whose keys a part is rotated and the same for all heads: [T, dim]. Files that
    keep the matrices of all heads as one cache keys and values, the others latent vectors."""
    expands = layer.tensors.has(f"{layer.prefix}attn_kv_b.weight")
    check_cache(layer, expands)
    latent, n_rotated = latent_of(layer), layer.params.rope.dim
    parts = split(layer, queries(layer, x), {
        "attn_q_nope": latent.key_dim - n_rotated, "attn_q_pe": n_rotated,
    })  # fmt: skip
    both = linear(layer, "attn_kv_a_mqa", x, latent.rank + n_rotated)
    kept = split(layer, both, {"attn_kv_latent": latent.rank, "attn_k_pe": n_rotated})
    vectors = rms_norm(layer, "attn_kv_a_norm", kept["attn_kv_latent"])
    k_pe = rotated(layer, "attn_k_pe", heads(layer, "attn_k_pe", kept["attn_k_pe"], 1), pairing)
    q_pe = rotated(layer, "attn_q_pe", parts["attn_q_pe"], pairing)
    mix = expanded if expands else absorbed
    return attention_output(layer, mix(layer, parts["attn_q_nope"], q_pe, vectors, k_pe))


def absorbed(layer: Layer, q_nope: Value, q_pe: Value, vectors: Value, k_pe: Value) -> Value:
    """The heads' outputs side by side, by attention to latent `vectors` [T, rank]."""
    latent = latent_of(layer)
    values = heads(layer, "attn_v", vectors, 1)
    k = layer.emit("concat", (values, k_pe), name="attn_k")
    q_nope = per_head(layer, "attn_k_b", q_nope, latent.rank)
    q = layer.emit("concat", (q_nope, q_pe), name="attn_q.latent")
    mixed = heads(layer, "attn", attend(layer, q, k, values), layer.params.n_heads)
    return flat(layer, "attn_v_b", per_head(layer, "attn_v_b", mixed, latent.value_dim))


def expanded(layer: Layer, q_nope: Value, q_pe: Value, vectors: Value, k_pe: Value) -> Value:
    """The heads' outputs side by side, by attention to keys and values that are made of latent
    `vectors` [T, rank]; all heads share the rotated part of the keys."""
    latent, count = latent_of(layer), layer.params.n_heads
    own = latent.key_dim - layer.params.rope.dim
    both = linear(layer, "attn_kv_b", vectors, count * (own + latent.value_dim))
    parts = split(layer, heads(layer, "attn_kv_b", both, count), {
        "attn_k_nope": own, "attn_v": latent.value_dim,
    })  # fmt: skip
    one = flat(layer, "attn_k_pe", k_pe)
    shared = heads(layer, "attn_k_pe.all", layer.emit(
        "concat", (one,) * count, name="attn_k_pe.all"
    ), count)  # fmt: skip
    k = layer.emit("concat", (parts["attn_k_nope"], shared), name="attn_k")
    q = layer.emit("concat", (q_nope, q_pe), name="attn_q.whole")
    return attend(layer, q, k, parts["attn_v"])


def latent_of(layer: Layer) -> Latent:
    """The widths; a ModelError where the file gives none."""
    if layer.params.latent is None:
        raise layer.tensors.fail("key 'attention.kv_lora_rank' is missing or 0, wanted above 0")
    return layer.params.latent


def check_cache(layer: Layer, expands: bool) -> None:
    """Refuse heads of keys and values other than those that are made."""
    params, latent = layer.params, latent_of(layer)
    found = params.n_kv_heads, params.head_dim, params.value_dim
    wanted = 1, latent.rank + params.rope.dim, latent.rank
    if expands:
        wanted = params.n_heads, latent.key_dim, latent.value_dim
    if found != wanted:
        raise layer.tensors.fail(
            f"layer {layer.index} caches {found[0]} heads of {found[1]} and {found[2]} elements,"
            f" allowed are {wanted[0]} of {wanted[1]} and {wanted[2]}"
        )


def queries(layer: Layer, x: Value) -> Value:
    """Queries [T, n_heads, key_dim], through fewer elements where the model does that."""
    latent = latent_of(layer)
    size = layer.params.n_heads * latent.key_dim
    if latent.query_rank == 0:
        return heads(layer, "attn_q", linear(layer, "attn_q", x, size), layer.params.n_heads)
    inner = rms_norm(layer, "attn_q_a_norm", linear(layer, "attn_q_a", x, latent.query_rank))
    return heads(layer, "attn_q", linear(layer, "attn_q_b", inner, size), layer.params.n_heads)


def per_head(layer: Layer, name: str, x: Value, n: int) -> Value:
    """Each head of `x` [T, n_heads, K] times its own matrix [n, K]: [T, n_heads, n]."""
    count, width = (max_dim(dim) for dim in x.type.shape[1:])
    weight = layer.tensors.stack(f"{layer.prefix}{name}.weight", (count, n, width))
    order, places, starts = layer.b.group_heads(
        layer.net.positions, heads=count, name=f"{layer.prefix}{name}.order"
    )
    rows = layer.emit("permute_rows", x, order, name=f"{name}.in")
    out = layer.emit("expert_linear", rows, starts, weight, name=f"{name}.by_head")
    return layer.emit("permute_rows", out, places, name=name)
