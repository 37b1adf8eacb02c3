"""mpt: scores that fall with distance, limits for q, k and v, and an MLP without a gate.

Some models have learned positions instead, or norms of q and k.
"""

from ggufc.compiler.models.blocks import (
    add_positions,
    alibi_slopes,
    attend,
    attention_output,
    clamped,
    embedding,
    layer_norm,
    logits,
    plain_mlp,
    pre_norm_layers,
    projection_norms,
    qkv,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = embedding(net)
    if net.tensors.has("position_embd.weight"):
        x = add_positions(net, x)
    return logits(net, pre_norm_layers(net, x, attention, mlp, layer_norm), layer_norm)


def attention(layer: Layer, x: Value) -> Value:
    """Attention whose scores fall with distance."""
    q, k, v = clamped(layer, *qkv(layer, x))
    if layer.tensors.has(f"{layer.prefix}attn_q_norm.weight"):
        q, k = projection_norms(layer, q, k, layer_norm)
    return attention_output(layer, attend(layer, q, k, v, slopes=alibi_slopes(layer)))


def mlp(layer: Layer, x: Value) -> Value:
    """The MLP without a gate."""
    return plain_mlp(layer, x, "gelu")
