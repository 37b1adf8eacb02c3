"""gpt-oss: experts with clamped gates and biases, attention with sinks, every other layer with a
window. Halves of a head make the pairs; the second norm of a layer goes by the name of another.
"""

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    embedding,
    logits,
    mixture,
    pre_norm_layers,
    qkv,
    rotate,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    norm_name = "post_attention_norm"
    return logits(net, pre_norm_layers(net, embedding(net), attention, mlp, mlp_norm=norm_name))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys, of which a part goes to the heads' sinks."""
    q, k, v = qkv(layer, x)
    q, k = rotate(layer, q, k, "half")
    sinks = layer.tensors.vector(f"{layer.prefix}attn_sinks.weight", layer.params.n_heads)
    return attention_output(layer, attend(layer, q, k, v, sinks=sinks))


def mlp(layer: Layer, x: Value) -> Value:
    """The experts."""
    return mixture(layer, x, "clamped_swiglu")
