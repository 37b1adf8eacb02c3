"""Recurrent layers: short convolutions, and state spaces with steps that depend on the input."""

from ggufc.compiler.hparams import Recurrent
from ggufc.compiler.models.blocks.basic import linear, split, width
from ggufc.compiler.models.blocks.heads import flat, heads
from ggufc.compiler.models.blocks.norms import bare_rms_norm
from ggufc.compiler.models.network import Layer
from ggufc.ir import Value, Weight


def recurrent_of(layer: Layer) -> Recurrent:
    """The sizes of the layer's recurrent part; a ModelError where it has none."""
    if layer.params.recurrent is None:
        raise layer.tensors.fail(
            f"layer {layer.index} is not recurrent; architecture"
            f" {layer.hparams.architecture!r} has no other layers"
        )
    return layer.params.recurrent


def shares(layer: Layer, name: str, total: int, count: int) -> int:
    """How much of `total` each of `count` parts has; a ModelError, where that is no whole number,
    says what they are parts of."""
    if total % count:
        raise layer.tensors.fail(f"{name} {total} is no multiple of {count}")
    return total // count


def convolution(layer: Layer, name: str, x: Value, activation: str = "none") -> Value:
    """`x` [T, D] convolved, channel by channel, with the tokens before, then `activation`."""
    count, channels = recurrent_of(layer).conv_width, width(x)
    prefix = f"{layer.prefix}{name}"
    bias = None
    if layer.tensors.has(f"{prefix}.bias"):
        bias = layer.tensors.vector(f"{prefix}.bias", channels)
    return layer.emit(
        "short_conv",
        x,
        layer.net.positions,
        layer.net.sequences,
        layer.state("conv", count - 1, channels),
        layer.tensors.plain(f"{prefix}.weight", (channels, count)),
        bias,
        activation=activation,
        name=name,
    )


def gated_convolution(layer: Layer, x: Value) -> Value:
    """Convolution of a product with a gate, times another gate: [T, dim]."""
    dim = layer.hparams.dim
    joined = linear(layer, "shortconv.in_proj", x, 3 * dim)
    parts = split(layer, joined, {f"shortconv.{name}": dim for name in ("b", "c", "x")})
    before, after, inner = parts.values()
    inner = layer.emit("mul", before, inner, name="shortconv.in")
    inner = convolution(layer, "shortconv.conv", inner)
    inner = layer.emit("mul", after, inner, name="shortconv.out")
    return linear(layer, "shortconv.out_proj", inner, dim)


def scan(layer: Layer, x: Value, dt: Value, b: Value, c: Value, a: Weight, skip: Weight) -> Value:
    """The outputs [T, H * P] of a state space for `x` [T, H, P], after steps softplus(`dt`)."""
    dt = layer.emit("softplus", dt, name="ssm_step")
    shape = (*x.type.max_shape[1:], b.type.max_shape[2])
    positions, sequences = layer.net.positions, layer.net.sequences
    operands = (x, dt, b, c, positions, sequences, layer.state("ssm", *shape), a, skip)
    return flat(layer, "ssm_scan", layer.emit("selective_scan", *operands, name="ssm_scan"))


def gate(layer: Layer, x: Value, z: Value) -> Value:
    """`x` times silu(`z`)."""
    return layer.emit("mul", x, layer.emit("silu", z, name="ssm_gate"), name="ssm_gated")


def channel_state_space(layer: Layer, x: Value) -> Value:
    """A state space for each channel, with rates of its own (Mamba): [T, dim]."""
    sizes, tensors = recurrent_of(layer), layer.tensors
    inner, state = sizes.inner_dim, sizes.state_dim
    joined = linear(layer, "ssm_in", x, 2 * inner)
    x, z = split(layer, joined, {"ssm_inner": inner, "ssm_z": inner}).values()
    x = convolution(layer, "ssm_conv1d", x, "silu")
    joined = linear(layer, "ssm_x", x, sizes.rank + 2 * state)
    parts = split(layer, joined, {"ssm_rank": sizes.rank, "ssm_b": state, "ssm_c": state})
    if sizes.is_normed:
        parts = {n: bare_rms_norm(layer, f"{n}.normed", part) for n, part in parts.items()}
    dt = linear(layer, "ssm_dt", parts["ssm_rank"], inner)
    b, c = (heads(layer, name, parts[name], 1) for name in ("ssm_b", "ssm_c"))
    a = tensors.plain(f"{layer.prefix}ssm_a", (inner, state))
    skip = tensors.vector(f"{layer.prefix}ssm_d", inner)
    y = scan(layer, heads(layer, "ssm_inner", x, inner), dt, b, c, a, skip)
    return linear(layer, "ssm_out", gate(layer, y, z), layer.hparams.dim)


def head_state_space(layer: Layer, x: Value) -> Value:
    """A state space for each head, with one rate (Mamba 2): [T, dim]."""
    sizes, tensors = recurrent_of(layer), layer.tensors
    inner, count, groups = sizes.inner_dim, sizes.rank, sizes.groups
    shares(layer, "the width of the state space", inner, count)
    shares(layer, "the number of heads of the state space", count, groups)
    joint = groups * sizes.state_dim
    columns = {"ssm_z": inner, "ssm_joined": inner + 2 * joint, "ssm_rate": count}
    z, x, dt = split(layer, linear(layer, "ssm_in", x, sum(columns.values())), columns).values()
    x = convolution(layer, "ssm_conv1d", x, "silu")
    parts = split(layer, x, {"ssm_inner": inner, "ssm_b": joint, "ssm_c": joint})
    x = heads(layer, "ssm_inner", parts["ssm_inner"], count)
    b, c = (heads(layer, name, parts[name], groups) for name in ("ssm_b", "ssm_c"))
    bias = tensors.vector(f"{layer.prefix}ssm_dt.bias", count)
    dt = layer.emit("bias_add", dt, bias, name="ssm_dt")
    a = tensors.plain(f"{layer.prefix}ssm_a", (count, 1))
    skip = tensors.flat_vector(f"{layer.prefix}ssm_d", count, 1)
    y = gate(layer, scan(layer, x, dt, b, c, a, skip), z)
    return linear(layer, "ssm_out", group_norm(layer, y, groups), layer.hparams.dim)


def group_norm(layer: Layer, x: Value, groups: int) -> Value:
    """`x` [T, D] with each of `groups` parts normed by itself, where the file has the weights."""
    name, size = f"{layer.prefix}ssm_norm.weight", shares(layer, "width", width(x), groups)
    if not layer.tensors.has(name):
        return x
    weight = layer.tensors.flat_vector(name, groups, size)
    parts = bare_rms_norm(layer, "ssm_norm", heads(layer, "ssm_gated", x, groups))
    return layer.emit("scale_columns", flat(layer, "ssm_norm", parts), weight, name="ssm_normed")
