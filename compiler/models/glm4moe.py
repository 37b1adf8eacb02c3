"""glm4moe: biases on q, k and v, part of a head rotated, experts after the first layers. The second
norm of a layer goes by the name of another one; some models norm the heads of q and k.
"""

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    embedding,
    head_norms,
    logits,
    mixture_mlp,
    pre_norm_layers,
    qkv,
    rotate,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x, norm_name = embedding(net), "post_attention_norm"
    return logits(net, pre_norm_layers(net, x, attention, mixture_mlp, mlp_norm=norm_name))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated, and perhaps normed, queries and keys."""
    q, k, v = qkv(layer, x)
    if layer.tensors.has(f"{layer.prefix}attn_q_norm.weight"):
        q, k = head_norms(layer, q, k)
    q, k = rotate(layer, q, k, "half")
    return attention_output(layer, attend(layer, q, k, v))
