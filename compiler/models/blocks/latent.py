"""Attention to latent vectors: one for all heads, cached in place of keys and values.

Each head's own matrices are applied to its query, before, and to its mixture of latent vectors,
after (the absorbed form of multi-head latent attention, DeepSeek-AI 2024, section 2.1).
"""

from ggufc.compiler.hparams import Latent
from ggufc.compiler.models.blocks.attention import attend, attention_output
from ggufc.compiler.models.blocks.basic import linear, split
from ggufc.compiler.models.blocks.heads import heads
from ggufc.compiler.models.blocks.norms import rms_norm
from ggufc.compiler.models.network import Layer
from ggufc.ir import Value, max_dim


def latent_attention(layer: Layer, x: Value, pairing: str) -> Value:
    """Attention, of whose keys a part is rotated and the same for all heads: [T, dim]."""
    latent, n_rotated = latent_of(layer), layer.params.rope.dim
    parts = split(layer, queries(layer, x), {
        "attn_q_nope": latent.key_dim - n_rotated, "attn_q_pe": n_rotated,
    })  # fmt: skip
    both = linear(layer, "attn_kv_a_mqa", x, latent.rank + n_rotated)
    kept = split(layer, both, {"attn_kv_latent": latent.rank, "attn_k_pe": n_rotated})
    values = heads(layer, "attn_v", rms_norm(layer, "attn_kv_a_norm", kept["attn_kv_latent"]), 1)
    k_pe = rotated(layer, "attn_k_pe", heads(layer, "attn_k_pe", kept["attn_k_pe"], 1), pairing)
    k = layer.emit("concat", (values, k_pe), name="attn_k")
    absorbed = per_head(layer, "attn_k_b", parts["attn_q_nope"], latent.rank)
    q_pe = rotated(layer, "attn_q_pe", parts["attn_q_pe"], pairing)
    q = layer.emit("concat", (absorbed, q_pe), name="attn_q.latent")
    mixed = heads(layer, "attn", attend(layer, q, k, values), layer.params.n_heads)
    out = per_head(layer, "attn_v_b", mixed, latent.value_dim)
    width = layer.params.n_heads * latent.value_dim
    flat = layer.emit("reshape", out, shape=(out.type.shape[0], width), name="attn_v_b.flat")
    return attention_output(layer, flat)


def latent_of(layer: Layer) -> Latent:
    """The widths; a ModelError where the file gives none, or other keys and values."""
    params, latent = layer.params, layer.params.latent
    if latent is None:
        raise layer.tensors.fail("key 'attention.kv_lora_rank' is missing or 0, wanted above 0")
    found = params.n_kv_heads, params.head_dim, params.value_dim
    wanted = 1, latent.rank + params.rope.dim, latent.rank
    if found != wanted:
        raise layer.tensors.fail(
            f"layer {layer.index} caches {found[0]} heads of {found[1]} and {found[2]} elements,"
            f" allowed are {wanted[0]} of {wanted[1]} and {wanted[2]}: keys and values in latent"
            " form; files from before 2025-04 have others and must be converted again"
        )
    return latent


def queries(layer: Layer, x: Value) -> Value:
    """Queries [T, n_heads, key_dim], through fewer elements where the model does that."""
    latent = latent_of(layer)
    size = layer.params.n_heads * latent.key_dim
    if latent.query_rank == 0:
        return heads(layer, "attn_q", linear(layer, "attn_q", x, size), layer.params.n_heads)
    inner = rms_norm(layer, "attn_q_a_norm", linear(layer, "attn_q_a", x, latent.query_rank))
    return heads(layer, "attn_q", linear(layer, "attn_q_b", inner, size), layer.params.n_heads)


def rotated(layer: Layer, name: str, x: Value, pairing: str) -> Value:
    """Heads turned by the angles of their positions."""
    table = layer.net.rope_table(layer.params)
    return layer.emit("rope", x, table, pairing=pairing, name=f"{name}.rope")


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
