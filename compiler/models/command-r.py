"""command-r: attention and MLP side by side behind one norm, and scaled logits."""

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    each_head_norms,
    embedding,
    gated_mlp,
    layer_norm,
    logits,
    parallel_layers,
    qkv,
    rotate,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = parallel_layers(net, embedding(net), attention, mlp)
    return logits(net, x, norm=layer_norm, scale=net.hparams.logit_scale)


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys; the largest model norms them first."""
    q, k, v = qkv(layer, x)
    q, k = rotate(layer, *each_head_norms(layer, q, k), "interleaved")
    return attention_output(layer, attend(layer, q, k, v))


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP."""
    return gated_mlp(layer, x, "silu")
