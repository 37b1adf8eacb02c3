"""Mixtures of experts: MLPs of which each token uses a few."""

from ggufc.compiler.hparams import Experts
from ggufc.compiler.models.blocks.basic import add, linear, width
from ggufc.compiler.models.blocks.mlp import gated_mlp
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


def mixture(layer: Layer, x: Value, activation: str) -> Value:
    """The weighted sum of the experts that each token is sent to: [T, dim]. `activation` is one of
    a gated linear unit."""
    experts = experts_of(layer)
    ids, weights = routes(layer, x)
    order, places, starts = layer.b.group_experts(
        ids, experts=experts.count, name=f"{layer.prefix}ffn_experts.order"
    )
    rows = layer.emit("gather_rows", x, order, name="ffn_experts.in")
    dim, hidden = layer.hparams.dim, experts.hidden_dim
    gate, up = (stack(layer, name, hidden, dim) for name in ("ffn_gate_exps", "ffn_up_exps"))
    inner = layer.emit(
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
    down = stack(layer, "ffn_down_exps", dim, hidden)
    bias = stacked_bias(layer, "ffn_down_exps", dim)
    out = layer.emit("expert_linear", inner, starts, down, bias=bias, name="ffn_experts.out")
    return layer.emit("combine_rows", out, places, weights, name="ffn_experts")


def experts_of(layer: Layer) -> Experts:
    """The layer's experts; a ModelError where it should have some."""
    if layer.params.experts is None:
        raise layer.tensors.fail(
            f"layer {layer.index} has no experts; architecture"
            f" {layer.hparams.architecture!r} has them in every layer"
        )
    return layer.params.experts


def routes(layer: Layer, x: Value) -> tuple[Value, Value]:
    """The experts of each token, i32 [T, used], and their weights."""
    experts, tensors = experts_of(layer), layer.tensors
    scores = linear(layer, "ffn_gate_inp", x, experts.count)
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
