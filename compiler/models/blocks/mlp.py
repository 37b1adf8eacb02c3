"""The MLPs of layers."""

import numpy as np

from ggufc.compiler.errors import quoted
from ggufc.compiler.models.blocks.basic import linear, width
from ggufc.compiler.models.network import Layer
from ggufc.ir import Value


def plain_mlp(layer: Layer, x: Value, activation: str, **attributes: float) -> Value:
    """down(activation(up(x))): [T, dim]; `activation` is the name of an op with `attributes`."""
    up = linear(layer, "ffn_up", x, layer.params.hidden_dim)
    inner = layer.emit(activation, up, name=f"ffn_up.{activation}", **attributes)
    return linear(layer, "ffn_down", smoothed(layer, inner), layer.hparams.dim)


def smoothed(layer: Layer, x: Value) -> Value:
    """`x` [T, N] with its columns divided by those scales that the weights after it were multiplied
    by before they were quantised (AWQ, Lin et al. 2023), where the file has some."""
    name = f"{layer.prefix}ffn.act.scales"
    if not layer.tensors.has(name):
        return x
    scales = layer.tensors.vector_values(name, width(x))
    for value in scales[~(np.isfinite(scales) & (scales != 0))]:
        raise layer.tensors.fail(f"tensor {quoted(name)} holds {value}, allowed are numbers but 0")
    weight = layer.tensors.constant(f"{name}.inverse", 1.0 / scales)
    return layer.emit("scale_columns", x, weight, name="ffn_up.smoothed")


def gated(layer: Layer, gate: Value, up: Value, activation: str) -> Value:
    """activation(gate) * up: [T, hidden_dim]; `activation` is the name of an op."""
    gate = layer.emit(activation, gate, name=f"ffn_gate.{activation}")
    return layer.emit("mul", gate, up, name="ffn_gated")


def gated_mlp(
    layer: Layer, x: Value, activation: str, hidden: int | None = None, suffix: str = ""
) -> Value:
    """down(activation(gate(x)) * up(x)): [T, dim]. The inner width is the layer's unless given;
    `suffix` is what the tensors' names end with."""
    inner = layer.params.hidden_dim if hidden is None else hidden
    gate = linear(layer, f"ffn_gate{suffix}", x, inner)
    up = linear(layer, f"ffn_up{suffix}", x, inner)
    product = gated(layer, gate, up, activation)
    return linear(layer, f"ffn_down{suffix}", product, layer.hparams.dim)


def joined_gated_mlp(layer: Layer, x: Value, activation: str) -> Value:
    """As `gated_mlp` of a file that has gate and up, in this order, in the rows of one matrix."""
    halves = layer.tensors.halves(
        f"{layer.prefix}ffn_up.weight", layer.params.hidden_dim, width(x), "ffn_gate", "ffn_up"
    )
    gate, up = (
        layer.emit("linear", x, (weight,), name=name)
        for name, weight in zip(("ffn_gate", "ffn_up"), halves, strict=True)
    )
    return linear(layer, "ffn_down", gated(layer, gate, up, activation), layer.hparams.dim)
