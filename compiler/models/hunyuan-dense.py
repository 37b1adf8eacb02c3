"""hunyuan-dense: as qwen3, but heads are rotated before they are normed."""

from ggufc.compiler.models import qwen3
from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    embedding,
    head_norms,
    logits,
    pre_norm_layers,
    qkv,
    rotate,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), attention, qwen3.mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with queries and keys that are rotated, then normed."""
    q, k, v = qkv(layer, x)
    q, k = head_norms(layer, *rotate(layer, q, k, "half"))
    return attention_output(layer, attend(layer, q, k, v))
