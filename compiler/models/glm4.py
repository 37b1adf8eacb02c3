"""glm4: as chatglm, with norms before and after each branch.

Files of models that also see images keep the halves of a head as pairs.
"""

from ggufc.compiler.models.blocks import (
    embedding,
    joined_gated_mlp,
    logits,
    pre_norm_layers,
    rms_norm,
    rotated_attention,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), attention, mlp))


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys, and a norm after it."""
    pairing = "half" if layer.hparams.rope_sections else "interleaved"
    return rms_norm(layer, "post_attention_norm", rotated_attention(layer, x, pairing))


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP, and a norm after it."""
    return rms_norm(layer, "post_ffw_norm", joined_gated_mlp(layer, x, "silu"))
