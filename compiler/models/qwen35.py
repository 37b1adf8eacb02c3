"""qwen35: layers of the gated delta rule, every fourth one with gated attention instead."""

from ggufc.compiler.models.blocks import (
    embedding,
    gated_attention,
    gated_delta,
    linear,
    logits,
    mixture_mlp,
    pre_norm_layers,
    recurrent_of,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = pre_norm_layers(net, embedding(net), mixer, mixture_mlp, mlp_norm="post_attention_norm")
    return logits(net, x)


def mixer(layer: Layer, x: Value) -> Value:
    """One of the two; value heads use the key heads in turn."""
    if not layer.params.recurrent:
        return gated_attention(layer, x)
    count = recurrent_of(layer).rank
    decay, beta = (linear(layer, name, x, count) for name in ("ssm_alpha", "ssm_beta"))
    return gated_delta(layer, x, decay, beta, tiled=True)
