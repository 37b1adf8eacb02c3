"""gemma4, the text model: as gemma3, with unscaled scores and normed values; some have experts.

The last layers may use the keys and values of earlier ones, and every layer may add an embedding of
its own for the token, mixed with that of the model.
"""

import math

import numpy as np

from ggufc.compiler.models.blocks import (
    add,
    attend,
    attention_output,
    bare_rms_norm,
    embedding,
    experts_of,
    gated_mlp,
    heads,
    linear,
    logits,
    look_up,
    mixture,
    qkv,
    rms_norm,
    rotated,
    scaled,
    split,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = embedding(net, scale=math.sqrt(net.hparams.dim))
    extras = own_embeddings(net, x)
    for layer in net.layers():
        branch = attention(layer, rms_norm(layer, "attn_norm", x))
        x = add(layer, "attn_residual", x, rms_norm(layer, "post_attention_norm", branch))
        x = add(layer, "ffn_residual", x, rms_norm(layer, "post_ffw_norm", mlp(layer, x)))
        if extras:
            x = add(layer, "extra_residual", x, extra_branch(layer, x, extras[layer.index]))
        x = layer_output(layer, x)
    return logits(net, x)


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP of the normed `x`; in models with experts the sum of both, each behind norms of
    its own."""
    out = gated_mlp(layer, rms_norm(layer, "ffn_norm", x), "gelu_tanh")
    if layer.params.experts is None:
        return out
    normed = rms_norm(layer, "pre_ffw_norm_2", x)
    mixed = mixture(layer, normed, "gelu_tanh", expert_scores(layer, x))
    out = rms_norm(layer, "post_ffw_norm_1", out)
    return add(layer, "ffn_all", out, rms_norm(layer, "post_ffw_norm_2", mixed))


def expert_scores(layer: Layer, x: Value) -> Value:
    """What each expert scores [T, count], of `x` behind a norm of its own."""
    hp, prefix = layer.hparams, f"{layer.prefix}ffn_gate_inp"
    scale = layer.tensors.vector_values(f"{prefix}.scale", hp.dim)
    weight = layer.tensors.constant(f"{prefix}.norm", scale / np.float32(math.sqrt(hp.dim)))
    normed = layer.emit("rms_norm", x, weight, eps=hp.norm_eps, name="ffn_gate_inp.norm")
    matrix = layer.tensors.matrix(f"{prefix}.weight", experts_of(layer).count, hp.dim)
    return layer.emit("linear", normed, (matrix,), name="ffn_gate_inp")


def own_embeddings(net: Network, x: Value) -> list[Value]:
    """What each layer adds for the tokens, [T, per_layer_dim]: an embedding of its own and a
    projection of the model's. An empty list where layers add nothing."""
    hp = net.hparams
    count, width = hp.n_layers, hp.per_layer_dim
    if not width:
        return []
    table = net.tensors.matrix("per_layer_token_embd.weight", hp.vocab_size, count * width)
    own = net.emit("embed", net.tokens, table, scale=math.sqrt(width), name="per_layer_embd")
    mixed = linear(net, "per_layer_model_proj", x, count * width)
    mixed = scaled(net, "per_layer_proj.scaled", mixed, 1.0 / math.sqrt(hp.dim))
    mixed = net.emit(
        "reshape", mixed, shape=(x.type.shape[0], count, width), name="per_layer_proj.layers"
    )
    mixed = rms_norm(net, "per_layer_proj_norm", mixed)
    mixed = net.emit("reshape", mixed, shape=own.type.shape, name="per_layer_proj.flat")
    both = scaled(net, "per_layer.scaled", add(net, "per_layer", mixed, own), 1.0 / math.sqrt(2.0))
    return list(split(net, both, {f"per_layer.{i}": width for i in range(count)}).values())


def extra_branch(layer: Layer, x: Value, extra: Value) -> Value:
    """The layer's embedding of the tokens, gated by `x`: [T, dim]."""
    gate = linear(layer, "inp_gate", x, layer.hparams.per_layer_dim)
    gate = layer.emit("gelu_tanh", gate, name="inp_gate.gelu_tanh")
    inner = layer.emit("mul", gate, extra, name="inp_gated")
    return rms_norm(layer, "post_norm", linear(layer, "proj", inner, layer.hparams.dim))


def layer_output(layer: Layer, x: Value) -> Value:
    """`x` times the layer's scale, where it has one."""
    name = f"{layer.prefix}layer_output_scale.weight"
    if not layer.tensors.has(name):
        return x
    return scaled(layer, "out", x, float(layer.tensors.vector_values(name, 1)[0]))


def attention(layer: Layer, x: Value) -> Value:
    """Attention to the layer's own keys and values, or to those of an earlier one."""
    params = layer.params
    if layer.tensors.has(f"{layer.prefix}attn_qkv.weight"):
        q, k, v = qkv(layer, x)
    else:
        q = linear(layer, "attn_q", x, params.n_heads * params.head_dim)
        q = heads(layer, "attn_q", q, params.n_heads)
        if layer.has_cache:
            k, v = keys_and_values(layer, x)
    q = rotated(layer, "attn_q", rms_norm(layer, "attn_q_norm", q), "half")
    if not layer.has_cache:
        return attention_output(layer, look_up(layer, q))
    k = rotated(layer, "attn_k", rms_norm(layer, "attn_k_norm", k), "half")
    return attention_output(layer, attend(layer, q, k, bare_rms_norm(layer, "attn_v_norm", v)))


def keys_and_values(layer: Layer, x: Value) -> tuple[Value, Value]:
    """Keys and values; a layer without a matrix for values takes its keys for them."""
    params = layer.params
    count = params.n_kv_heads
    k = heads(layer, "attn_k", linear(layer, "attn_k", x, count * params.head_dim), count)
    has_values = layer.tensors.has(f"{layer.prefix}attn_v.weight")
    if not has_values and params.value_dim == params.head_dim:
        return k, k
    return k, heads(layer, "attn_v", linear(layer, "attn_v", x, count * params.value_dim), count)
