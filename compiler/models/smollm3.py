"""smollm3: as llama, but every fourth layer leaves queries and keys as they are."""

from ggufc.compiler.models import llama
from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    embedding,
    logits,
    pre_norm_layers,
    qkv,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value

PERIOD = 4


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), attention, llama.mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Attention, with rotated queries and keys but in the last layer of each four."""
    if layer.index % PERIOD < PERIOD - 1:
        return llama.attention(layer, x)
    return attention_output(layer, attend(layer, *qkv(layer, x)))
