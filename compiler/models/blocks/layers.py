"""How branches, norms and the residual stream make layers."""

from collections.abc import Callable
from typing import TypeAlias

from ggufc.compiler.models.blocks.basic import add
from ggufc.compiler.models.blocks.norms import Norm, layer_norm, rms_norm
from ggufc.compiler.models.network import Layer, Network
from ggufc.ir import Value

Branch: TypeAlias = Callable[[Layer, Value], Value]


def pre_norm_layers(
    net: Network,
    x: Value,
    attention: Branch,
    mlp: Branch,
    norm: Norm = rms_norm,
    mlp_norm: str = "ffn_norm",
) -> Value:
    """All layers, each x + attention(norm(x)), then x + mlp(norm(x)): [T, dim]. `mlp_norm` names
    the weights of the second norm."""
    for layer in net.layers():
        branch = attention(layer, norm(layer, "attn_norm", x))
        x = add(layer, "attn_residual", x, branch)
        branch = mlp(layer, norm(layer, mlp_norm, x))
        x = add(layer, "ffn_residual", x, branch)
    return x


def pre_norm_mixers(net: Network, x: Value, mixer: Branch) -> Value:
    """All layers of a network without MLPs, each x + mixer(norm(x)): [T, dim]."""
    for layer in net.layers():
        branch = mixer(layer, rms_norm(layer, "attn_norm", x))
        x = add(layer, "residual", x, branch)
    return x


def post_norm_layers(net: Network, x: Value, attention: Branch, mlp: Branch) -> Value:
    """All layers, each x + norm(attention(x)), then x + norm(mlp(x)): [T, dim]."""
    for layer in net.layers():
        branch = rms_norm(layer, "post_attention_norm", attention(layer, x))
        x = add(layer, "attn_residual", x, branch)
        branch = rms_norm(layer, "post_ffw_norm", mlp(layer, x))
        x = add(layer, "ffn_residual", x, branch)
    return x


def parallel_layers(
    net: Network, x: Value, attention: Branch, mlp: Branch, norm: Norm = layer_norm
) -> Value:
    """All layers, each x + attention(n) + mlp(n), where n = norm(x): [T, dim]."""
    for layer in net.layers():
        normed = norm(layer, "attn_norm", x)
        x = add_branches(layer, x, attention(layer, normed), mlp(layer, normed))
    return x


def add_branches(layer: Layer, x: Value, attention: Value, mlp: Value) -> Value:
    """The sum of the residual stream and two branches that do not depend on each other."""
    return add(layer, "ffn_residual", add(layer, "attn_residual", x, attention), mlp)
