"""What goes into a bundle: code, packed weights, and the manifest that describes them."""

import os
from pathlib import Path
from typing import Any

from ggufc import __version__
from ggufc.backends.llvm import module_text
from ggufc.backends.llvm.layouts import RAW, Bytes, pack_tensor
from ggufc.backends.llvm.states import state_layouts
from ggufc.compiler.bundle_writer import BundleWriter
from ggufc.compiler.errors import CompileError
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.hparams import read_hparams
from ggufc.compiler.options import CompileOptions
from ggufc.compiler.progress import Progress
from ggufc.compiler.sources import weight_bytes
from ggufc.compiler.stages import Stages
from ggufc.ir import EMBED, Module, print_module
from ggufc.ir import Weight as IRWeight
from ggufc.runtime.bundle import (
    ABI_VERSION,
    FORMAT_VERSION,
    GRAPH_IR,
    PLANNED_IR,
    Embedding,
    Limits,
    Manifest,
    ModelFacts,
    NativeObject,
    Source,
    State,
    Weight,
)


def weight_table(stages: Stages) -> tuple[Weight, ...]:
    """All weights by place. Raises CompileError if the instruction sets disagree about one."""
    tables = {name: module_weights(module) for name, module in stages.planned.items()}
    first = next(iter(tables.values()))
    for name, table in tables.items():
        if table != first:
            raise CompileError(f"internal error: weights for {name} have other places than before")
    return first


def module_weights(module: Module) -> tuple[Weight, ...]:
    """The weights of a planned module that it uses, by offset."""
    used = [weight for weight in module.weights.values() if weight.layout is not None]
    return tuple(sorted(map(table_entry, used), key=lambda entry: entry.offset))


def table_entry(weight: IRWeight) -> Weight:
    """A planned weight as the manifest lists it."""
    assert weight.layout is not None
    assert weight.offset is not None
    assert weight.nbytes is not None
    return Weight(
        name=weight.name,
        type=weight.type.dtype.name,
        shape=weight.type.max_shape,
        layout=weight.layout,
        offset=weight.offset,
        bytes=weight.nbytes,
    )


def add_code(bundle: BundleWriter, stages: Stages, keep_ir: bool) -> None:
    """The objects, the text of the graph and of the programs that the objects run (a profile names
    their ops), and with `keep_ir` that of every other stage."""
    bundle.add(GRAPH_IR, print_module(stages.graph).encode())
    for name, compiled in stages.objects.items():
        planned = stages.planned[name]
        bundle.add(object_path(name), compiled.object)
        bundle.add(PLANNED_IR.format(isa=name), print_module(planned).encode())
        if keep_ir:
            bundle.add(f"ir/{name}/fused.ir", print_module(stages.fused[name]).encode())
            bundle.add(f"ir/{name}/code.ll", compiled.llvm_ir.encode())
            bundle.add(f"ir/{name}/code.s", module_text(planned, name, "asm").encode())


def object_path(isa: str) -> str:
    """Where in the bundle the object of an instruction set lies."""
    return f"code/{isa}.o"


def pack_weights(bundle: BundleWriter, gguf: GGUFFile, stages: Stages, show: Progress) -> None:
    """Write weights.bin, one weight after another."""
    table = weight_table(stages)
    weights = stages.any_planned.weights
    total = sum(entry.bytes for entry in table)
    bundle.check_space(total)
    show.step("Pack the weights", total)
    with bundle.weights() as file:
        for entry in table:
            file.write_at(entry.offset, packed(gguf, weights[entry.name], entry))
            show.advance(entry.bytes)


def packed(gguf: GGUFFile, weight: IRWeight, entry: Weight) -> Bytes:
    """The bytes of a weight in its layout."""
    raw = weight_bytes(gguf, weight)
    if entry.layout == RAW.name:
        return raw
    return pack_tensor(entry.type, raw, entry.shape)


def manifest(
    bundle: BundleWriter,
    gguf: GGUFFile,
    options: CompileOptions,
    stages: Stages,
    prompt: dict[str, Any],
) -> Manifest:
    """The manifest of the bundle as it is written."""
    return Manifest(
        format=FORMAT_VERSION,
        abi=ABI_VERSION,
        ggufc=__version__,
        source=Source(file_name(gguf.path), gguf.size, gguf.sha256()),
        options=option_values(options, stages),
        model=model_facts(gguf, stages.graph),
        limits=limits(gguf, options),
        graphs=tuple(stages.graph.functions),
        embedding=embedding(gguf, stages.graph),
        objects=native_objects(stages),
        states=states(stages),
        prompt=prompt,
        files=tuple(sorted(bundle.files, key=lambda entry: entry.path)),
        checksums=bundle.checksums,
        weights=weight_table(stages),
    )


def file_name(path: Path) -> str:
    """A file's name as text, whatever bytes it has."""
    return os.fsencode(path.name).decode("utf-8", "replace")


def option_values(options: CompileOptions, stages: Stages) -> dict[str, Any]:
    """The options that the bundle depends on, with the instruction sets that `target` meant."""
    template = options.chat_template
    return {
        "target": list(stages.objects),
        "context": options.context,
        "max_batch": options.max_batch,
        "max_tokens": options.max_tokens,
        "kv_type": options.kv_type,
        "chat_template": None if template is None else file_name(template),
        "keep_ir": options.keep_ir,
    }


def model_facts(gguf: GGUFFile, graph: Module) -> ModelFacts:
    """The model's name, architecture and hyperparameters."""
    hparams = read_hparams(gguf.metadata)
    values = hparams.to_dict()
    architecture = values.pop("architecture")
    values["short_context"] = short_context(graph)
    return ModelFacts(graph.name, architecture, values.pop("vocab_size"), values)


def short_context(graph: Module) -> int:
    """The length from which on sequences are rotated by other frequencies; 0 if there is none."""
    ops = [op for function in graph.functions.values() for op in function.ops]
    return max((op.attributes["short_context"] for op in ops if op.name == "rope_table"), default=0)


def limits(gguf: GGUFFile, options: CompileOptions) -> Limits:
    """The compiled maxima. An encoder has no cache, so no sequences, and takes texts whole."""
    hparams = read_hparams(gguf.metadata)
    context = hparams.max_context if options.context is None else options.context
    if not hparams.is_causal:
        return Limits(context, context, 1, context)
    return Limits(options.max_tokens, options.max_tokens, options.max_batch, context)


def embedding(gguf: GGUFFile, graph: Module) -> Embedding:
    """What the model makes of a text."""
    (output,) = graph.functions[EMBED].outputs
    return Embedding(output.type.max_shape[-1], read_hparams(gguf.metadata).pooling)


def native_objects(stages: Stages) -> tuple[NativeObject, ...]:
    """The objects, best first, as the loader looks for one."""
    return tuple(
        NativeObject(name, object_path(name), o.machine, o.needs, o.arena_bytes)
        for name, o in stages.objects.items()
    )


def states(stages: Stages) -> tuple[State, ...]:
    """The states, in the module's order, which is the order of the call's pointers."""
    module = stages.any_planned
    layouts = state_layouts(module)
    return tuple(
        State(
            name,
            state.type.dtype.name,
            layouts[name].position_bytes,
            layouts[name].sequence_bytes,
            layouts[name].role,
            layouts[name].n_heads,
        )
        for name, state in module.states.items()
    )
