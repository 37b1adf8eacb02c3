"""chatglm: as llama with biases on q, k and v, part of a head rotated, gate and up in one
matrix."""

from ggufc.compiler.models import llama
from ggufc.compiler.models.blocks import embedding, joined_gated_mlp, logits, pre_norm_layers
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), llama.attention, mlp))


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP."""
    return joined_gated_mlp(layer, x, "silu")
