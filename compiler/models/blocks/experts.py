"""Mixtures of experts: MLPs of which each token uses a few."""

from ggufc.compiler.errors import quoted
from ggufc.compiler.hparams import Experts
from ggufc.compiler.models.blocks.basic import add, linear, width
from ggufc.compiler.models.blocks.mlp import gated, gated_mlp
from ggufc.compiler.models.network import Layer
from ggufc.ir import Value, Weight


def mixture_mlp(layer: Layer, x: Value, activation: str = "silu") -> Value:
    """The layer's experts, or its gated MLP where it has none: [T, dim]."""
    experts = layer.params.experts
    if experts is None:
        return gated_mlp(layer, x, activation)
    out = mixture(layer, x, activation)
    if not experts.shared_dim:
        return out
    return add(layer, "ffn_experts.all", out, shared_expert(layer, x, activation))


def mixture(layer: Layer, x: Value, activation: str, scores: Value | None = None) -> Value:
    """The weighted sum of the experts that each token is sent to: [T, dim]. `activation` is one of
    a gated linear unit; `scores` [T, count] choose the experts, those of `x` unless given."""
    experts = experts_of(layer)
    ids, weights = routes(layer, router_scores(layer, x) if scores is None else scores)
    order, places, starts = layer.b.group_experts(
        ids, experts=experts.count, name=f"{layer.prefix}ffn_experts.order"
    )
    rows = layer.emit("gather_rows", x, order, name="ffn_experts.in")
    inner = expert_units(layer, rows, starts, activation)
    dim = layer.hparams.dim
    down = stack(layer, "ffn_down_exps", dim, experts.hidden_dim)
    out = expert_rows(layer, "ffn_down_exps", inner, starts, down)
    return layer.emit("combine_rows", out, places, weights, name="ffn_experts")


def expert_units(layer: Layer, rows: Value, starts: Value, activation: str) -> Value:
    """The gated linear units of `rows`, each its expert's: [T, used, hidden_dim]."""
    hidden = experts_of(layer).hidden_dim
    names = ("ffn_gate_exps", "ffn_up_exps")
    gate, up = gate_and_up(layer, hidden, width(rows))
    if any(layer.tensors.has(f"{layer.prefix}{name}.scale") for name in names):
        return scaled_units(layer, rows, starts, (gate, up), activation)
    return layer.emit(
        "expert_glu",
        rows,
        starts,
        gate,
        up,
        gate_bias=stacked_bias(layer, "ffn_gate_exps", hidden),
        up_bias=stacked_bias(layer, "ffn_up_exps", hidden),
        activation=activation,
        name="ffn_experts.inner",
    )


def scaled_units(
    layer: Layer, rows: Value, starts: Value, weights: tuple[Weight, Weight], activation: str
) -> Value:
    """As `expert_units` where the file scales what an expert's matrices make."""
    if activation == "clamped_swiglu":
        raise layer.tensors.fail(
            f"tensor {quoted(f'{layer.prefix}ffn_gate_exps.scale')}: scales of experts are not"
            " supported with clamped gates"
        )
    gate, up = (
        expert_rows(layer, name, rows, starts, weight)
        for name, weight in zip(("ffn_gate_exps", "ffn_up_exps"), weights, strict=True)
    )
    return gated(layer, gate, up, activation)


def expert_rows(layer: Layer, name: str, x: Value, starts: Value, weight: Weight) -> Value:
    """`x` times each row's expert's matrix, times the expert's scale and plus its bias where the
    file has them: [T, used, n]."""
    full, count = f"{layer.prefix}{name}.scale", experts_of(layer).count
    bias = stacked_bias(layer, name, weight.type.max_shape[1])
    if not layer.tensors.has(full):
        return layer.emit("expert_linear", x, starts, weight, bias=bias, name=f"{name}.out")
    if bias is not None:
        raise layer.tensors.fail(f"tensor {quoted(full)}: scales and biases of experts together")
    out = layer.emit("expert_linear", x, starts, weight, name=f"{name}.out")
    factors = layer.tensors.vector(full, count)
    return layer.emit("scale_experts", out, starts, factors, name=f"{name}.scaled")


def experts_of(layer: Layer) -> Experts:
    """The layer's experts; a ModelError where it should have some."""
    if layer.params.experts is None:
        raise layer.tensors.fail(
            f"layer {layer.index} has no experts; architecture"
            f" {layer.hparams.architecture!r} has them in every layer"
        )
    return layer.params.experts


def router_scores(layer: Layer, x: Value) -> Value:
    """What each expert scores: [T, count]."""
    return linear(layer, "ffn_gate_inp", x, experts_of(layer).count)


def routes(layer: Layer, scores: Value) -> tuple[Value, Value]:
    """The experts of each token, i32 [T, used], and their weights."""
    experts, tensors = experts_of(layer), layer.tensors
    name = f"{layer.prefix}exp_probs_b.bias"
    bias = tensors.vector(name, experts.count) if tensors.has(name) else None
    ids, weights = layer.b.route(
        scores,
        bias,
        used=experts.used,
        gating=experts.gating,
        normalize=experts.normalized,
        scale=experts.scale,
        groups=experts.groups,
        groups_used=experts.groups_used,
        group_best=experts.group_best,
        name=f"{layer.prefix}ffn_route",
    )
    return ids, weights


def gate_and_up(layer: Layer, rows: int, columns: int) -> tuple[Weight, Weight]:
    """The two matrices [rows, columns] of all experts, which some files hold as one."""
    joined = f"{layer.prefix}ffn_gate_up_exps.weight"
    if layer.tensors.has(joined):
        shape = (experts_of(layer).count, rows, columns)
        return layer.tensors.stacked_halves(joined, shape, "ffn_gate_exps", "ffn_up_exps")
    return stack(layer, "ffn_gate_exps", rows, columns), stack(layer, "ffn_up_exps", rows, columns)


def stack(layer: Layer, name: str, rows: int, columns: int) -> Weight:
    """The matrices [rows, columns] of all experts; old files have a tensor for each."""
    shape = (experts_of(layer).count, rows, columns)
    parts = f"{layer.prefix}{name.removesuffix('_exps')}.{{}}.weight"
    return layer.tensors.stack(f"{layer.prefix}{name}.weight", shape, parts)


def stacked_bias(layer: Layer, name: str, n: int) -> Weight | None:
    """The biases [n] of all experts, if they have any."""
    full = f"{layer.prefix}{name}.bias"
    if not layer.tensors.has(full):
        return None
    return layer.tensors.plain(full, (experts_of(layer).count, n))


def plain_mixture(layer: Layer, x: Value, activation: str) -> Value:
    """As `mixture`, of experts without gates: down(activation(up(x))). `activation` is the name of
    an op."""
    experts = experts_of(layer)
    ids, weights = routes(layer, router_scores(layer, x))
    order, places, starts = layer.b.group_experts(
        ids, experts=experts.count, name=f"{layer.prefix}ffn_experts.order"
    )
    rows = layer.emit("gather_rows", x, order, name="ffn_experts.in")
    up = stack(layer, "ffn_up_exps", experts.hidden_dim, width(rows))
    inner = expert_rows(layer, "ffn_up_exps", rows, starts, up)
    inner = layer.emit(activation, inner, name=f"ffn_experts.{activation}")
    down = stack(layer, "ffn_down_exps", layer.hparams.dim, experts.hidden_dim)
    out = expert_rows(layer, "ffn_down_exps", inner, starts, down)
    return layer.emit("combine_rows", out, places, weights, name="ffn_experts")


def shared_expert(layer: Layer, x: Value, activation: str) -> Value:
    """The expert that every token uses, times a factor of the token's where the file has a gate
    for it: [T, dim]."""
    out = gated_mlp(layer, x, activation, experts_of(layer).shared_dim, "_shexp")
    name = f"{layer.prefix}ffn_gate_inp_shexp.weight"
    if not layer.tensors.has(name):
        return out
    gate = layer.emit("linear", x, (layer.tensors.row(name, width(x)),), name="ffn_gate_shared")
    gate = layer.emit("sigmoid", gate, name="ffn_gate_shared.sigmoid")
    return layer.emit("scale_rows", out, gate, name="ffn_shared")
