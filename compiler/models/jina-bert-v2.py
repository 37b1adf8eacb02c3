"""jina-bert-v2: as bert, with scores that fall with distance in place of positions, and an MLP
whose gate may be part of the matrix of its other half."""

from ggufc.compiler.models.blocks import (
    add_token_types,
    alibi_slopes,
    attend,
    attention_output,
    embedding,
    encoder_layers,
    gated_mlp,
    joined_gated_mlp,
    layer_norm,
    projected,
    projection_norms,
    qkv,
    wanted_rows,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The embeddings of the network's tokens."""
    x = layer_norm(net, "token_embd_norm", add_token_types(net, embedding(net)))
    return projected(net, wanted_rows(net, encoder_layers(net, x, attention, mlp)))


def attention(layer: Layer, x: Value) -> Value:
    """Attention to the whole text; in some files queries and keys are normed before."""
    q, k, v = qkv(layer, x)
    if layer.tensors.has(f"{layer.prefix}attn_q_norm.weight"):
        q, k = projection_norms(layer, q, k, layer_norm)
    return attention_output(layer, attend(layer, q, k, v, slopes=alibi_slopes(layer)))


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP."""
    if layer.tensors.has(f"{layer.prefix}ffn_gate.weight"):
        return gated_mlp(layer, x, "gelu")
    return joined_gated_mlp(layer, x, "gelu")
