"""gptneox: attention and MLP side by side, each behind a norm of its own, or one after the other.

Part of a head rotates, and GELU is exact.
"""

from ggufc.compiler.models.blocks import (
    add_branches,
    embedding,
    layer_norm,
    logits,
    plain_mlp,
    pre_norm_layers,
    rotated_attention,
)
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value


def forward(net: Network) -> Value:
    """The logits of the network's tokens."""
    x = embedding(net)
    if net.hparams.parallel_residual:
        x = parallel(net, x)
    else:
        x = pre_norm_layers(net, x, attention, mlp, layer_norm)
    return logits(net, x, layer_norm)


def parallel(net: Network, x: Value) -> Value:
    """All layers, each x + attention(norm(x)) + mlp(norm(x)): [T, dim]."""
    for layer in net.layers():
        mixed = attention(layer, layer_norm(layer, "attn_norm", x))
        x = add_branches(layer, x, mixed, mlp(layer, layer_norm(layer, "ffn_norm", x)))
    return x


def attention(layer: Layer, x: Value) -> Value:
    """Attention with rotated queries and keys."""
    return rotated_attention(layer, x, "half")


def mlp(layer: Layer, x: Value) -> Value:
    """The MLP without a gate."""
    return plain_mlp(layer, x, "gelu")
