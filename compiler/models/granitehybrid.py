"""granitehybrid: as granite, with a state space in place of attention in most layers."""

from ggufc.compiler.models import granite
from ggufc.compiler.models.blocks import (
    embedding,
    head_state_space,
    logits,
    pre_norm_layers,
    scaled,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    hp = net.hparams
    x = pre_norm_layers(net, embedding(net, hp.embedding_scale or 1.0), mixer, granite.mlp)
    return logits(net, x, scale=1.0 / (hp.logit_scale or 1.0))


def mixer(layer: Layer, x: Value) -> Value:
    """A state space, or attention, scaled."""
    if not layer.params.recurrent:
        return granite.attention(layer, x)
    out = head_state_space(layer, x)
    return scaled(layer, "attn_output.scaled", out, layer.hparams.residual_scale)
