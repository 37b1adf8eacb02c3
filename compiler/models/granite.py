"""granite: as llama, with multipliers for embeddings, branches, scores and logits."""

from ggufc.compiler.models.blocks import (
    attend,
    attention_output,
    embedding,
    logits,
    mixture_mlp,
    pre_norm_layers,
    qkv,
    rotate,
    scaled,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    hp = net.hparams
    x = pre_norm_layers(net, embedding(net, hp.embedding_scale or 1.0), attention, mlp)
    return logits(net, x, scale=1.0 / (hp.logit_scale or 1.0))


def attention(layer: Layer, x: Value) -> Value:
    """Attention, scaled; with rotated queries and keys in models that tell positions apart."""
    q, k, v = qkv(layer, x)
    if layer.hparams.is_rotated:
        q, k = rotate(layer, q, k, "interleaved")
    out = attention_output(layer, attend(layer, q, k, v))
    return scaled(layer, "attn_output.scaled", out, layer.hparams.residual_scale)


def mlp(layer: Layer, x: Value) -> Value:
    """The gated MLP, or experts, scaled."""
    out = mixture_mlp(layer, x)
    return scaled(layer, "ffn_down.scaled", out, layer.hparams.residual_scale)
