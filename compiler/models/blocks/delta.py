"""Layers of the gated delta rule, and the gated attention that goes with them."""

import numpy as np

from ggufc.compiler.models.blocks.attention import attend, attention_output
from ggufc.compiler.models.blocks.basic import linear, split, width
from ggufc.compiler.models.blocks.heads import flat, head_norms, heads, rotate
from ggufc.compiler.models.blocks.norms import rms_norm
from ggufc.compiler.models.blocks.recurrent import convolution, recurrent_of, shares
from ggufc.compiler.models.network import Layer
from ggufc.ir import Value

UNIT_EPS = 1e-6


def gated_delta(layer: Layer, x: Value, decay: Value, beta: Value, tiled: bool) -> Value:
    """Linear attention by the gated delta rule: [T, dim]. `decay` and `beta` [T, Hv] are what the
    rates of the heads are made of, as projected; `tiled` says which key head a value head has."""
    sizes = recurrent_of(layer)
    key_heads, value_heads, key_dim = sizes.groups, sizes.rank, sizes.state_dim
    shares(layer, "the number of value heads", value_heads, key_heads)
    value_dim = shares(layer, "the width of all value heads", sizes.inner_dim, value_heads)
    columns = {"q": key_heads * key_dim, "k": key_heads * key_dim, "v": sizes.inner_dim}
    joined, gate = delta_inputs(layer, x, columns)
    joined = convolution(layer, "ssm_conv1d", joined, "silu")
    q, k, v = split(layer, joined, {f"delta_{n}": size for n, size in columns.items()}).values()
    q = unit(layer, "delta_q", heads(layer, "delta_q", q, key_heads), key_dim**-0.5)
    k = unit(layer, "delta_k", heads(layer, "delta_k", k, key_heads), 1.0)
    v = heads(layer, "delta_v", v, value_heads)
    y = layer.emit(
        "gated_delta_rule",
        q,
        k,
        v,
        rate(layer, decay),
        layer.emit("sigmoid", beta, name="delta_beta"),
        layer.net.positions,
        layer.net.sequences,
        layer.state("delta", value_heads, value_dim, key_dim),
        tiled=tiled,
        name="delta",
    )
    y = flat(layer, "delta", rms_norm(layer, "ssm_norm", y))
    y = layer.emit("mul", y, layer.emit("silu", gate, name="delta_gate"), name="delta_gated")
    return linear(layer, "ssm_out", y, layer.hparams.dim)


def delta_inputs(layer: Layer, x: Value, columns: dict[str, int]) -> tuple[Value, Value]:
    """Queries, keys and values side by side, and the gates of the values. Old files have one matrix
    for all, in which each key head's rows stand together."""
    inner = columns["v"]
    if not layer.tensors.has(f"{layer.prefix}ssm_in.weight"):
        joined = linear(layer, "attn_qkv", x, sum(columns.values()))
        return joined, linear(layer, "attn_gate", x, inner)
    count = recurrent_of(layer).groups
    joined = heads(
        layer, "ssm_in", linear(layer, "ssm_in", x, sum(columns.values()) + inner), count
    )
    each = {f"ssm_in.{name}": size // count for name, size in {**columns, "z": inner}.items()}
    *qkv, gate = (flat(layer, n, part) for n, part in split(layer, joined, each).items())
    return layer.emit("concat", tuple(qkv), name="attn_qkv"), gate


def rate(layer: Layer, x: Value) -> Value:
    """The logarithm of what a head keeps: its own factor times softplus(`x` + bias)."""
    count = width(x)
    bias = layer.tensors.vector(f"{layer.prefix}ssm_dt.bias", count)
    x = layer.emit("softplus", layer.emit("bias_add", x, bias, name="delta_step"), name="delta_dt")
    factors = layer.tensors.vector(f"{layer.prefix}ssm_a", count)
    return layer.emit("scale_columns", x, factors, name="delta_decay")


def unit(layer: Layer, name: str, x: Value, length: float) -> Value:
    """`x` with each row of its last axis brought to a length: a norm with equal weights."""
    size = width(x)
    values = np.full(size, length * size**-0.5, np.float32)
    weight = layer.tensors.constant(f"unit.{size}.{length:.6g}", values)
    return layer.emit("rms_norm", x, weight, eps=UNIT_EPS / size, name=f"{name}.unit")


def gated_attention(layer: Layer, x: Value) -> Value:
    """Attention with normed and rotated queries and keys, each head's output times the sigmoid of a
    gate that stands beside its query: [T, dim]."""
    params = layer.params
    n, n_kv, dim = params.n_heads, params.n_kv_heads, params.head_dim
    joined = heads(layer, "attn_q", linear(layer, "attn_q", x, n * 2 * dim), n)
    q, gate = split(layer, joined, {"attn_query": dim, "attn_gate": dim}).values()
    k = heads(layer, "attn_k", linear(layer, "attn_k", x, n_kv * dim), n_kv)
    v = heads(layer, "attn_v", linear(layer, "attn_v", x, n_kv * params.value_dim), n_kv)
    if params.value_dim != dim:
        raise layer.tensors.fail(
            f"layer {layer.index} has values of width {params.value_dim}, wanted {dim} as of keys"
        )
    q, k = rotate(layer, *head_norms(layer, q, k), "half")
    out = attend(layer, q, k, v)
    gate = layer.emit("sigmoid", flat(layer, "attn_gate", gate), name="attn_gate.sigmoid")
    return attention_output(layer, layer.emit("mul", out, gate, name="attn_gated"))
