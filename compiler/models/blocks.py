"""What networks are made of. An architecture puts these together; none of them knows which one
it is in.

A block takes the scope that it belongs to, the names of its tensors (as in the file, without
prefix and suffix) and the values it works on, and returns a value that is named after the step.
T is the number of tokens.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

from ggufc.compiler.models.network import Layer, Network, Scope
from ggufc.ir import Value, max_dim

Branch: TypeAlias = Callable[[Layer, Value], Value]
Norm: TypeAlias = Callable[[Scope, str, Value], Value]


def width(x: Value) -> int:
    """The size of the last dimension of `x`."""
    return max_dim(x.type.shape[-1])


def embedding(net: Network, scale: float = 1.0) -> Value:
    """The rows of the embedding for the tokens, times `scale`: [T, dim]."""
    hp = net.hparams
    table = net.tensors.matrix("token_embd.weight", hp.vocab_size, hp.dim)
    return net.emit("embed", net.tokens, table, scale=scale, name="embd")


def rms_norm(at: Scope, name: str, x: Value) -> Value:
    """Root-mean-square norm over the last axis of `x`, by the vector `name`."""
    weight = at.tensors.vector(f"{at.prefix}{name}.weight", width(x))
    return at.emit("rms_norm", x, weight, eps=at.hparams.norm_eps, name=name)


def linear(at: Scope, name: str, x: Value, n: int) -> Value:
    """`x` [T, K] times the matrix `name` [n, K], plus its bias where the file has one: [T, n]."""
    weight = at.tensors.matrix(f"{at.prefix}{name}.weight", n, width(x))
    y = at.emit("linear", x, (weight,), name=name)
    bias_name = f"{at.prefix}{name}.bias"
    if not at.tensors.has(bias_name):
        return y
    return at.emit("bias_add", y, at.tensors.vector(bias_name, n), name=f"{name}.biased")


def add(at: Scope, name: str, x: Value, y: Value) -> Value:
    """The sum of a residual stream and a branch."""
    return at.emit("add", x, y, name=name)


def scaled(at: Scope, name: str, x: Value, factor: float) -> Value:
    """`x` times `factor`, which is 0 where a file does not ask for that."""
    return at.emit("scale", x, factor=factor, name=name) if factor not in (0.0, 1.0) else x


def pre_norm_layers(
    net: Network,
    x: Value,
    attention: Branch,
    mlp: Branch,
    norm: Norm = rms_norm,
    mlp_norm: str = "ffn_norm",
) -> Value:
    """All layers, each x + attention(norm(x)), then x + mlp(norm(x)): [T, dim]. `mlp_norm` names
    the weights of the second norm."""
    for layer in net.layers():
        branch = attention(layer, norm(layer, "attn_norm", x))
        x = add(layer, "attn_residual", x, branch)
        branch = mlp(layer, norm(layer, mlp_norm, x))
        x = add(layer, "ffn_residual", x, branch)
    return x


def post_norm_layers(net: Network, x: Value, attention: Branch, mlp: Branch) -> Value:
    """All layers, each x + norm(attention(x)), then x + norm(mlp(x)): [T, dim]."""
    for layer in net.layers():
        branch = rms_norm(layer, "post_attention_norm", attention(layer, x))
        x = add(layer, "attn_residual", x, branch)
        branch = rms_norm(layer, "post_ffw_norm", mlp(layer, x))
        x = add(layer, "ffn_residual", x, branch)
    return x


def heads(layer: Layer, name: str, x: Value, n: int) -> Value:
    """`x` [T, n * D] seen as [T, n, D]."""
    shape = (x.type.shape[0], n, width(x) // n)
    return layer.emit("reshape", x, shape=shape, name=f"{name}.heads")


def qkv(layer: Layer, x: Value) -> tuple[Value, Value, Value]:
    """Queries [T, n_heads, head_dim], keys and values [T, n_kv_heads, head_dim or value_dim] of
    `x`, from three matrices or from one that holds all three."""
    params = layer.params
    counts = {"attn_q": params.n_heads, "attn_k": params.n_kv_heads, "attn_v": params.n_kv_heads}
    widths = {"attn_q": params.head_dim, "attn_k": params.head_dim, "attn_v": params.value_dim}
    sizes = {name: count * widths[name] for name, count in counts.items()}
    if layer.tensors.has(f"{layer.prefix}attn_qkv.weight"):
        parts = split(layer, linear(layer, "attn_qkv", x, sum(sizes.values())), sizes)
    else:
        parts = {name: linear(layer, name, x, size) for name, size in sizes.items()}
    q, k, v = (heads(layer, name, part, counts[name]) for name, part in parts.items())
    return q, k, v


def split(at: Scope, x: Value, sizes: dict[str, int]) -> dict[str, Value]:
    """`x` [T, N] cut into columns, `sizes[name]` of them for each name in turn."""
    parts = {}
    start = 0
    for name, size in sizes.items():
        parts[name] = at.emit("slice", x, start=start, stop=start + size, name=name)
        start += size
    return parts


def head_norms(layer: Layer, q: Value, k: Value, norm: Norm = rms_norm) -> tuple[Value, Value]:
    """Queries and keys with each head normed by the same weights."""
    return norm(layer, "attn_q_norm", q), norm(layer, "attn_k_norm", k)


def projection_norms(layer: Layer, q: Value, k: Value) -> tuple[Value, Value]:
    """Queries and keys normed over all heads together."""
    return over_all_heads(layer, "attn_q", q), over_all_heads(layer, "attn_k", k)


def over_all_heads(layer: Layer, name: str, x: Value) -> Value:
    """`x` [T, n, D] normed as [T, n * D] by the weights of `name`."""
    count = max_dim(x.type.shape[1])
    shape = (x.type.shape[0], count * width(x))
    flat = layer.emit("reshape", x, shape=shape, name=f"{name}.flat")
    return heads(layer, f"{name}.normed", rms_norm(layer, f"{name}_norm", flat), count)


def rotate(layer: Layer, q: Value, k: Value, pairing: str) -> tuple[Value, Value]:
    """Queries and keys turned by the angles of their positions; `pairing` is "interleaved"
    (elements 2i and 2i + 1 make a pair) or "half" (i and i + half)."""
    table = layer.net.rope_table(layer.params)
    q = layer.emit("rope", q, table, pairing=pairing, name="attn_q.rope")
    k = layer.emit("rope", k, table, pairing=pairing, name="attn_k.rope")
    return q, k


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
    shape = (out.type.shape[0], params.n_heads * params.value_dim)
    return layer.emit("reshape", out, shape=shape, name="attn.flat")


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


def gated(layer: Layer, gate: Value, up: Value, activation: str) -> Value:
    """activation(gate) * up: [T, hidden_dim]; `activation` is the name of an op."""
    gate = layer.emit(activation, gate, name=f"ffn_gate.{activation}")
    return layer.emit("mul", gate, up, name="ffn_gated")


def gated_mlp(layer: Layer, x: Value, activation: str) -> Value:
    """down(activation(gate(x)) * up(x)): [T, dim]."""
    hidden = layer.params.hidden_dim
    gate = linear(layer, "ffn_gate", x, hidden)
    up = linear(layer, "ffn_up", x, hidden)
    return linear(layer, "ffn_down", gated(layer, gate, up, activation), layer.hparams.dim)


def joined_gated_mlp(layer: Layer, x: Value, activation: str) -> Value:
    """As `gated_mlp` of a file that has gate and up, in this order, in the rows of one matrix."""
    halves = layer.tensors.halves(
        f"{layer.prefix}ffn_up.weight", layer.params.hidden_dim, width(x), "ffn_gate", "ffn_up"
    )
    gate, up = (
        layer.emit("linear", x, (weight,), name=name)
        for name, weight in zip(("ffn_gate", "ffn_up"), halves, strict=True)
    )
    return linear(layer, "ffn_down", gated(layer, gate, up, activation), layer.hparams.dim)


def logits(net: Network, x: Value, norm: Norm = rms_norm, scale: float = 1.0) -> Value:
    """Scores of all tokens of the vocabulary for the rows that are wanted, times `scale`. Without
    an output matrix the embedding serves as one."""
    hp = net.hparams
    if net.rows is not None:
        x = net.emit("take_rows", x, net.rows, name="wanted")
    x = norm(net, "output_norm", x)
    name = "output" if net.tensors.has("output.weight") else "token_embd"
    weight = net.tensors.matrix(f"{name}.weight", hp.vocab_size, hp.dim)
    out = net.emit("linear", x, (weight,), name="logits")
    if net.tensors.has("output.bias"):
        bias = net.tensors.vector("output.bias", hp.vocab_size)
        out = net.emit("bias_add", out, bias, name="logits.biased")
    out = scaled(net, "logits.scaled", out, scale)
    if hp.logit_softcap > 0:
        out = net.emit("softcap", out, cap=hp.logit_softcap, name="logits.capped")
    return out
