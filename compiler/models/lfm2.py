"""lfm2: gated short convolutions, and among them some layers with attention; MLPs in all."""

from ggufc.compiler.models import qwen3
from ggufc.compiler.models.blocks import (
    embedding,
    gated_convolution,
    logits,
    mixture_mlp,
    pre_norm_layers,
    rms_norm,
)
from ggufc.compiler.models.network import Layer, Network, Scope
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    return logits(net, pre_norm_layers(net, embedding(net), mixer, mixture_mlp), last_norm)


def last_norm(at: Scope, name: str, x: Value) -> Value:
    """The norm before the output matrix, which has the name of another in these files."""
    return rms_norm(at, "token_embd_norm", x)


def mixer(layer: Layer, x: Value) -> Value:
    """A convolution, or attention with normed and rotated queries and keys."""
    return gated_convolution(layer, x) if layer.params.recurrent else qwen3.attention(layer, x)
