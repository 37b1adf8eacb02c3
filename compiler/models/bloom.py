"""bloom: scores that fall with distance, a norm behind the embedding, and an MLP without a gate."""

from ggufc.compiler.models.blocks import (
    embedding,
    layer_norm,
    logits,
    plain_mlp,
    pre_norm_layers,
    sloped_attention,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = layer_norm(net, "token_embd_norm", embedding(net))
    return logits(net, pre_norm_layers(net, x, sloped_attention, mlp, layer_norm), layer_norm)


def mlp(layer: Layer, x: Value) -> Value:
    """The MLP without a gate."""
    return plain_mlp(layer, x, "gelu_tanh")
