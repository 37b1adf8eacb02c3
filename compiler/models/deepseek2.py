"""deepseek2: attention to latent vectors, and experts after the first layers; DeepSeek V2 and V3,
Kimi K2 and others."""

from ggufc.compiler.models.blocks import (
    embedding,
    latent_attention,
    logits,
    mixture_mlp,
    pre_norm_layers,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), attention, mixture_mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Latent attention; neighbours make a pair."""
    return latent_attention(layer, x, "interleaved")
