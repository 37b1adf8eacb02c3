"""llama: norm, attention, norm, gated MLP or experts; Llama 1 to 3, Mistral, Mixtral, SmolLM and
many others.

Files hold the rows of q and k permuted so that neighbours make a pair.
"""

from ggufc.compiler.models.blocks import (
    embedding,
    logits,
    mixture_mlp,
    pre_norm_layers,
    rotated_attention,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), attention, mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys."""
    return rotated_attention(layer, x, "interleaved")


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP, or one of several."""
    return mixture_mlp(layer, x)
