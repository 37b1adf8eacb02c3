"""Showing a model's program at any stage and in any format: what `ggufc ir` prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ggufc.backends.llvm import STAGES as CODE_STAGES
from ggufc.backends.llvm import Isa, module_text
from ggufc.compiler.errors import OptionError, quoted
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, build
from ggufc.compiler.pass_manager import KeepAfter
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import pass_names, to_fused, to_planned
from ggufc.compiler.render_dot import render_dot
from ggufc.compiler.render_json import render_json
from ggufc.compiler.render_text import render_text
from ggufc.ir import FUSED, GRAPH, STAGES, IRError, Module, parse_module, verify
from ggufc.runtime.bundle import GRAPH_IR, Bundle

Format = Literal["text", "dot", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)


@dataclass(frozen=True)
class View:
    """What to show: a stage for an instruction set, or the program after a pass on the way there.

    `graph` narrows it to `prefill` or `decode`.
    """

    stage: str
    isa: Isa
    format: Format = "text"
    graph: str | None = None
    after: str | None = None

    def __post_init__(self) -> None:
        if self.stage in CODE_STAGES and self.format != "text":
            raise OptionError(
                f"stage {self.stage} has no format {self.format}; allowed: format text, "
                f"or stages {', '.join(STAGES)}"
            )
        if self.after is not None and self.after not in pass_names():
            known = ", ".join(pass_names())
            raise OptionError(f"pass {quoted(self.after)} is unknown; the passes are {known}")


def load_graph(path: Path) -> Module:
    """The program at stage graph of a GGUF file or of a bundle."""
    if not path.is_dir():
        with GGUFFile.open(path) as gguf:
            return build(gguf, GraphOptions())
    module = parse_module(Bundle.open(path).read(GRAPH_IR).decode("utf-8"))
    verify(module, GRAPH)
    return module


def show(graph: Module, view: View) -> str:
    """The text of a view of the program `graph`; errors say what does not fit."""
    module, stage = program_at(graph, view)
    if stage in CODE_STAGES:
        return module_text(module, view.isa.name, stage, view.graph)
    module = narrowed(module, view.graph)
    if view.format == "dot":
        return render_dot(module)
    return render_json(module, stage) if view.format == "json" else render_text(module, stage)


def program_at(graph: Module, view: View) -> tuple[Module, str]:
    """The program that the view is of, and the name of the stage whose rules it keeps."""
    keep = KeepAfter(view.after)
    module = graph
    if view.stage != GRAPH:
        module = to_fused(module, Compute(prefill=view.isa.prefill_compute), [keep])
    if view.stage not in (GRAPH, FUSED):
        module = to_planned(module, [keep])
    if view.after is None:
        return module, view.stage
    if keep.module is None:
        raise OptionError(f"pass {view.after} does not run before stage {view.stage} is reached")
    return keep.module, keep.stage


def narrowed(module: Module, graph: str | None) -> Module:
    """The module with one function and the weights that it uses; all of it if `graph` is None."""
    if graph is None:
        return module
    if graph not in module.functions:
        raise IRError(f"no graph {graph!r}; the program has {', '.join(module.functions)}")
    function = module.functions[graph]
    used = {weight for op in function.ops for weight in op.weights()}
    weights = {name: weight for name, weight in module.weights.items() if weight in used}
    return Module(module.name, module.attributes, weights, module.states, {graph: function})
