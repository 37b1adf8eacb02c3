"""nomic-bert: as bert, with rotated queries and keys in place of learned positions, and a gated
MLP; in nomic-bert-moe the MLPs have no gate, and in every other layer there are several."""

from ggufc.compiler.models.blocks import (
    add_token_types,
    embedding,
    encoder_layers,
    gated_mlp,
    layer_norm,
    plain_mixture,
    plain_mlp,
    projected,
    rotated_attention,
    wanted_rows,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The embeddings of the network's tokens."""
    x = layer_norm(net, "token_embd_norm", add_token_types(net, embedding(net)))
    return projected(net, wanted_rows(net, encoder_layers(net, x, attention, mlp)))


def attention(layer: Layer, x: Value) -> Value:
    """Attention to the whole text with rotated queries and keys."""
    return rotated_attention(layer, x, "half")


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP, the one without a gate, or those that tokens choose from."""
    if layer.params.experts is not None:
        return plain_mixture(layer, x, "gelu")
    if layer.tensors.has(f"{layer.prefix}ffn_gate.weight"):
        return gated_mlp(layer, x, "silu")
    return plain_mlp(layer, x, "gelu")
