"""qwen3next: as qwen35 with experts, value heads grouped by their key heads."""

from ggufc.compiler.models.blocks import (
    embedding,
    flat,
    gated_attention,
    gated_delta,
    heads,
    linear,
    logits,
    mixture_mlp,
    pre_norm_layers,
    recurrent_of,
    shares,
    split,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = pre_norm_layers(net, embedding(net), mixer, mixture_mlp, mlp_norm="post_attention_norm")
    return logits(net, x)


def mixer(layer: Layer, x: Value) -> Value:
    """One of the two; `ssm_ba` has beta and decay of each key head's value heads side by side."""
    if not layer.params.recurrent:
        return gated_attention(layer, x)
    sizes = recurrent_of(layer)
    each = shares(layer, "the number of value heads", sizes.rank, sizes.groups)
    joined = heads(layer, "ssm_ba", linear(layer, "ssm_ba", x, 2 * sizes.rank), sizes.groups)
    beta, decay = (
        flat(layer, name, part)
        for name, part in split(layer, joined, {"ssm_beta": each, "ssm_alpha": each}).items()
    )
    return gated_delta(layer, x, decay, beta, tiled=False)
