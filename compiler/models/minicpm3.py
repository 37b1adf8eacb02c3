"""minicpm3: minicpm's multipliers around latent attention. Halves of a head make the pairs."""

from ggufc.compiler.models import granite, minicpm
from ggufc.compiler.models.blocks import (
    embedding,
    latent_attention,
    logits,
    pre_norm_layers,
    scaled,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    net.hparams = hp = minicpm.with_scales(net.hparams)
    x = pre_norm_layers(net, embedding(net, hp.embedding_scale), attention, granite.mlp)
    return logits(net, x, scale=1.0 / hp.logit_scale)


def attention(layer: Layer, x: Value) -> Value:
    """Latent attention, scaled."""
    out = latent_attention(layer, x, "half")
    return scaled(layer, "attn_output.scaled", out, layer.hparams.residual_scale)
