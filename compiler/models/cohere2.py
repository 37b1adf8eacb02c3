"""cohere2: as command-r; three layers of four see a window, and they alone rotate."""

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
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
    """Attention; within a window, with rotated queries and keys."""
    q, k, v = qkv(layer, x)
    if layer.params.window:
        q, k = rotate(layer, q, k, "interleaved")
    return attention_output(layer, attend(layer, q, k, v))


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP."""
    return gated_mlp(layer, x, "silu")
