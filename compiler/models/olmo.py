"""olmo: as llama, with norms that have no weights, and limits for q, k and v."""

from ggufc.compiler.models import llama
from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    bare_layer_norm,
    clamped,
    embedding,
    logits,
    pre_norm_layers,
    qkv,
    rotate,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = pre_norm_layers(net, embedding(net), attention, llama.mlp, bare_layer_norm)
    return logits(net, x, bare_layer_norm)


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys."""
    q, k, v = clamped(layer, *qkv(layer, x))
    q, k = rotate(layer, q, k, "interleaved")
    return attention_output(layer, attend(layer, q, k, v))
