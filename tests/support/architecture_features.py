"""What the graph of a model is made of, in words, told from its ops and hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.hparams import HParams, LayerParams, read_hparams
from ggufc.compiler.models import GraphOptions, build
from ggufc.ir import Op, Value, max_dim

GATINGS = {"softmax": "softmax", "sigmoid": "sigmoid", "softmax_chosen": "softmax of the chosen"}
PAIRS = {"interleaved": "neighbours", "half": "halves"}
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu_squared", "xielu")
RECURRENT = {
    "short_conv": "convolution",
    "selective_scan": "state space",
    "gated_delta_rule": "gated delta rule",
}


@dataclass(frozen=True)
class Facts:
    """A model: its hyperparameters, the ops of `prefill`, and its tensors, those of layers without
    the layer's number."""

    hparams: HParams
    ops: tuple[Op, ...]
    tensors: frozenset[str]

    def named(self, name: str) -> list[Op]:
        """The ops of one kind."""
        return [op for op in self.ops if op.name == name]

    def results(self) -> Iterator[tuple[str, Op]]:
        """The names of results, those of layers without the layer's number, and their ops."""
        for op in self.ops:
            for result in op.results:
                yield without_layer(result.name), op


def facts_of(gguf: GGUFFile) -> Facts:
    """The facts of the model in a file."""
    module = build(gguf, GraphOptions(max_context=192))
    names = frozenset(without_layer(name) for name in gguf.tensors)
    return Facts(read_hparams(gguf.metadata), tuple(module.functions["prefill"].ops), names)


def without_layer(name: str) -> str:
    """A name without "blk.", the number and the point after it."""
    return name.split(".", 2)[2] if name.startswith("blk.") and name.count(".") > 1 else name


def rotation(f: Facts) -> Iterator[str]:
    """How positions turn queries and keys."""
    ropes = f.named("rope")
    for op in ropes:
        yield PAIRS[op.attributes["pairing"]]
        if op.value("x").type.max_shape[-1] > op.value("table").type.max_shape[-1]:
            yield "part of a head"
    layers = [layer for layer in f.hparams.layers if layer.n_kv_heads]
    if ropes and len({layer_of(op) for op in ropes}) < len(layers):
        yield "some layers"
    if ropes:
        yield from scaling(f, layers)


def scaling(f: Facts, layers: list[LayerParams]) -> Iterator[str]:
    """How frequencies differ from the usual ones."""
    ropes = {layer.rope for layer in layers}
    if any(rope.yarn for rope in ropes):
        yield "YaRN"
    if any(rope.factor != 1 and not rope.yarn for rope in ropes):
        yield "linear"
    if "rope_freqs.weight" in f.tensors:
        yield "factors"
    if "rope_factors_long.weight" in f.tensors:
        yield "LongRoPE"
    if len({rope.theta for rope in ropes}) > 1:
        yield "base of windows"


def positions(f: Facts) -> Iterator[str]:
    """Other ways to know positions."""
    if "position_embd.weight" in f.tensors:
        yield "learned"
    if any(op.operands.get("slopes") is not None for op in f.named("attention")):
        yield "ALiBi"


def windows(f: Facts) -> Iterator[str]:
    """Which layers see a window only."""
    found = [bool(op.attributes["window"]) for op in f.named("attention")]
    if any(found):
        yield "all layers" if all(found) else "some layers"


def scores(f: Facts) -> Iterator[str]:
    """What is done to scores and logits."""
    for op in f.named("attention"):
        if op.attributes["softcap"]:
            yield "softcap"
        if op.operands.get("sinks") is not None:
            yield "sinks"
        width = op.value("q").type.max_shape[-1]
        if not math.isclose(op.attributes["scale"], 1 / math.sqrt(width), rel_tol=1e-6):
            yield "own scale"
    if f.hparams.logit_softcap:
        yield "softcap of logits"


def head_norms(f: Facts) -> Iterator[str]:
    """Norms of queries and keys."""
    order = {name: i for i, (name, _) in enumerate(f.results())}
    for name, op in f.results():
        if name == "attn_q_norm":
            by_head = "each head its own" if op.name == "layer_norm" else "per head"
            yield by_head if len(op.result.type.shape) == 3 else "over all heads"
            yield "after rotation" if order.get("attn_q.rope", len(order)) < order[name] else ""


def biases(f: Facts) -> Iterator[str]:
    """Where biases are."""
    places = {
        "attn_q": "q k v",
        "attn_qkv": "q k v",
        "attn_output": "output",
        "ffn_up": "MLP",
        "ffn_gate_inp": "router",
    }
    for name, op in f.results():
        stem = name.removesuffix(".biased")
        if stem != name and stem in places:
            yield places[stem]
        if op.name == "layer_norm" and op.operands.get("bias") is not None:
            yield "norms"
        if op.name == "expert_glu" and op.operands.get("gate_bias") is not None:
            yield "experts"


def scales(f: Facts) -> Iterator[str]:
    """Multipliers."""
    if any(op.attributes["scale"] != 1 for op in f.named("embed")):
        yield "embedding"
    names = {name for name, op in f.results() if op.name == "scale"}
    if names & {"attn_output.scaled", "ffn_down.scaled"}:
        yield "branches"
    if "logits.scaled" in names:
        yield "logits"


def norms(f: Facts) -> Iterator[str]:
    """The kinds of norms, and whether branches have one at their end."""
    for op in f.ops:
        if op.name == "rms_norm":
            yield "RMS"
        elif op.name == "layer_norm":
            yield "layer" if op.operands.get("weight") is not None else "layer, no weights"
    ends = ("post_attention_norm", "post_ffw_norm")
    for name, op in f.results():
        if name in ends and op.value("x").op is not None:
            source = op.value("x").op
            yield "after branches" if source is not None and source.name != "add" else ""


def residual(f: Facts) -> Iterator[str]:
    """Whether the MLP of a layer goes without what its attention says."""
    attending = {layer_of(op) for op in f.named("attention")}
    first = f"blk.{min(attending, default=0)}.ffn_residual"
    for op in f.named("add"):
        if attending and op.result.name == first:
            above = [o for o in ancestors(op.value("b")) if o.name == "attention"]
            if min(attending) not in map(layer_of, above):
                yield "parallel"


def ancestors(value: Value) -> list[Op]:
    """All ops that a value depends on."""
    found: dict[Op, None] = {}
    waiting = [value]
    while waiting:
        op = waiting.pop().op
        if op is not None and op not in found:
            found[op] = None
            waiting.extend(op.values())
    return list(found)


def mlp(f: Facts) -> Iterator[str]:
    """The MLPs: their activation, and whether it gates."""
    for name, op in f.results():
        stem, _, activation = name.partition(".")
        if stem in ("ffn_gate", "ffn_up") and activation == op.name in ACTIVATIONS:
            kind = op.name.replace("relu_squared", "relu²").replace("_tanh", " (tanh)")
            yield f"gated {kind}" if stem == "ffn_gate" else kind


def experts(f: Facts) -> Iterator[str]:
    """How tokens choose experts, and what these are."""
    for op in f.named("route"):
        yield GATINGS[op.attributes["gating"]]
        if op.attributes["normalize"]:
            yield "normalised"
        if op.operands.get("bias") is not None:
            yield "bias of choice"
        if op.attributes["groups"] > 1:
            yield "groups"
        if op.attributes["scale"] != 1:
            yield "scaled"
    if "ffn_up_shexp.weight" in f.tensors:
        yield "shared"
    if "ffn_gate_inp_shexp.weight" in f.tensors:
        yield "gate of the shared"


def states(f: Facts) -> Iterator[str]:
    """What layers remember beside or in place of keys and values."""
    for op in f.ops:
        if op.name in RECURRENT:
            yield RECURRENT[op.name]
    if any(layer.latent for layer in f.hparams.layers):
        yield "keys and values of a latent" if "attn_kv_b.weight" in f.tensors else "latent"
    if any(layer.cache != i for i, layer in enumerate(f.hparams.layers)):
        yield "shared caches"


def matrices(f: Facts) -> Iterator[str]:
    """Which matrices a file holds as one."""
    if "output.weight" not in f.tensors:
        yield "output = embedding"
    if "attn_qkv.weight" in f.tensors and "ssm_conv1d.weight" not in f.tensors:
        yield "q k v"
    names = {name for name, _ in f.results()}
    if "ffn_gate_up_exps.weight" in f.tensors or (
        "ffn_gate" in names and "ffn_gate.weight" not in f.tensors
    ):
        yield "gate and up"


def layer_of(op: Op) -> int:
    """The layer that an op belongs to, by the name of its result."""
    return int(op.result.name.split(".")[1])


def widths(f: Facts) -> Iterator[str]:
    """Heads of unusual widths."""
    layers = [layer for layer in f.hparams.layers if layer.n_kv_heads and not layer.latent]
    for layer in layers:
        if layer.n_kv_heads < layer.n_heads:
            yield "one for all" if layer.n_kv_heads == 1 else "shared"
        if layer.head_dim * layer.n_heads != max_dim(f.hparams.dim):
            yield "own width"


ATTENTION: dict[str, Callable[[Facts], Iterator[str]]] = {
    "heads": widths,
    "rotation": rotation,
    "positions": positions,
    "windows": windows,
    "scores": scores,
    "norms of q and k": head_norms,
    "states": states,
}
REST: dict[str, Callable[[Facts], Iterator[str]]] = {
    "norms": norms,
    "residual": residual,
    "MLP": mlp,
    "experts": experts,
    "biases": biases,
    "scales": scales,
    "one matrix": matrices,
}
