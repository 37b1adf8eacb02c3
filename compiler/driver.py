"""The driver: from a GGUF file to a bundle. `compile_model` is the list of stages, top to
bottom."""

from dataclasses import dataclass
from pathlib import Path

from ggufc.backends.llvm import Isa, compile_module, module_text
from ggufc.compiler import assemble
from ggufc.compiler.bundle_writer import BundleWriter, disk_errors
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, build
from ggufc.compiler.options import CompileOptions
from ggufc.compiler.pass_manager import Dump
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import fused_pipeline, to_fused, to_planned
from ggufc.compiler.progress import Progress, Quiet
from ggufc.compiler.prompt_import import import_prompt
from ggufc.compiler.stages import Stages
from ggufc.compiler.targets import chosen_isas
from ggufc.compiler.text_files import write_text
from ggufc.ir import PREFILL, Module, print_module


@dataclass(frozen=True)
class Summary:
    """What a compile did: the size of the bundle, its instruction sets, and what the user should
    know."""

    bytes: int
    isas: tuple[str, ...]
    notices: tuple[str, ...] = ()


NO_BUNDLE = Summary(0, ())


def default_destination(source: Path) -> Path:
    """Where the bundle of a model goes if nobody says: `NAME.ggufc` in the current folder."""
    return Path(source.stem + ".ggufc")


def compile_model(
    source: Path,
    destination: Path,
    options: CompileOptions,
    *,
    force: bool = False,
    dump_ir: Path | None = None,
    stop_after: str | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Compile the model `source` into the bundle `destination`, which appears whole or not at all.

    `force` replaces a bundle that is there; `dump_ir` is a folder for the program after every
    pass; `stop_after` names a stage after which to stop without a bundle. Raises CompileError,
    IRError or TokenizerError.
    """
    show = progress or Quiet()
    targets = chosen_isas(options.target)
    if stop_after is None:
        writer = BundleWriter(destination, force=force)
    with GGUFFile.open(source) as gguf:
        show.step("Read the model")
        stages = Stages(build(gguf, graph_options(options)))
        generates = PREFILL in stages.graph.functions
        prompt = import_prompt(gguf.metadata, options.chat_template, generates=generates)
        if stop_after == "graph":
            return dumped(stages, dump_ir)
        show.step("Optimise and plan", len(targets))
        optimise(stages, targets, dump_ir, show)
        if stop_after in ("fused", "planned"):
            return NO_BUNDLE
        show.step("Generate code", len(targets))
        generate(stages, targets, dump_ir, show)
        if stop_after is not None:
            return NO_BUNDLE
        with writer as bundle:
            with disk_errors(bundle.folder):
                prompt.save(bundle.folder)
            assemble.add_code(bundle, stages, options.keep_ir)
            assemble.pack_weights(bundle, gguf, stages, show)
            show.step("Finish the bundle")
            bundle.adopt()
            bundle.publish(assemble.manifest(bundle, gguf, options, stages, prompt.report))
        return Summary(sum(f.bytes for f in bundle.files), tuple(stages.objects), prompt.notices)


def graph_options(options: CompileOptions) -> GraphOptions:
    """The part of the options that the graph depends on."""
    return GraphOptions(options.max_tokens, options.max_batch, options.context, options.kv_type)


def dumped(stages: Stages, dump_ir: Path | None) -> Summary:
    """Write the graph, when that is all there is to be."""
    if dump_ir is not None:
        write_text(dump_ir / "00-input.ir", print_module(stages.graph))
    return NO_BUNDLE


def optimise(stages: Stages, targets: list[Isa], dump_ir: Path | None, show: Progress) -> None:
    """Fill in the fused and planned stages. Targets that compute alike share them."""
    made: dict[Compute, tuple[Module, Module]] = {}
    for isa in targets:
        compute = Compute(prefill=isa.prefill_compute)
        if compute not in made:
            folder = dump_ir if dump_ir is None or not made else dump_ir / compute.prefill
            made[compute] = fused_and_planned(stages.graph, compute, folder)
        stages.fused[isa.name], stages.planned[isa.name] = made[compute]
        show.advance(1)


def fused_and_planned(
    graph: Module, compute: Compute, folder: Path | None
) -> tuple[Module, Module]:
    """Run both pipelines; `folder` gets the program after every pass."""
    if folder is None:
        fused = to_fused(graph, compute)
        return fused, to_planned(fused)
    fused = to_fused(graph, compute, [Dump(folder)])
    return fused, to_planned(fused, [Dump(folder, first=len(fused_pipeline(compute)) + 1)])


def generate(stages: Stages, targets: list[Isa], dump_ir: Path | None, show: Progress) -> None:
    """Fill in the objects."""
    for isa in targets:
        compiled = compile_module(stages.planned[isa.name], isa.name)
        stages.objects[isa.name] = compiled
        if dump_ir is not None:
            write_text(dump_ir / f"{isa.name}.ll", compiled.llvm_ir)
            text = module_text(stages.planned[isa.name], isa.name, "asm")
            write_text(dump_ir / f"{isa.name}.s", text)
        show.advance(1)
