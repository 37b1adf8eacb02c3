"""bert: learned positions, attention to the whole text, an MLP without a gate, and norms after the
branches; all-MiniLM, BGE, E5, GTE and many other models of embeddings."""

from ggufc.compiler.models.blocks import (
    add_positions,
    add_token_types,
    attend,
    attention_output,
    embedding,
    encoder_layers,
    layer_norm,
    plain_mlp,
    projected,
    qkv,
    wanted_rows,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The embeddings of the network's tokens."""
    x = add_positions(net, add_token_types(net, embedding(net)))
    x = encoder_layers(net, layer_norm(net, "token_embd_norm", x), attention, mlp)
    return projected(net, wanted_rows(net, x))


def attention(layer: Layer, x: Value) -> Value:
    """Attention to the whole text."""
    return attention_output(layer, attend(layer, *qkv(layer, x)))


def mlp(layer: Layer, x: Value) -> Value:
    """The MLP without a gate."""
    return plain_mlp(layer, x, "gelu")
