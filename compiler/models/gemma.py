"""gemma: as llama, with a scaled embedding that is the output matrix too, and GELU in the MLP."""

import math

from ggufc.compiler.models.blocks import (
    embedding,
    gated_mlp,
    logits,
    pre_norm_layers,
    rotated_attention,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = embedding(net, scale=math.sqrt(net.hparams.dim))
    return logits(net, pre_norm_layers(net, x, attention, mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys."""
    return rotated_attention(layer, x, "half")


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP."""
    return gated_mlp(layer, x, "gelu_tanh")
