"""Machine code through LLVM: `compile_module` makes an object, `module_text` shows its code."""

from __future__ import annotations

from typing import Literal

from ggufc.backends.base import CompiledObject
from ggufc.backends.llvm.codegen import Generated, generate, generate_kernel
from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import ISAS, Isa, isa_named
from ggufc.backends.llvm.object_code import emit_assembly, emit_object
from ggufc.backends.llvm.optimize import CodegenError, parse, run_passes, target_machine
from ggufc.backends.llvm.placement import arena_bytes
from ggufc.ir import Module

Stage = Literal["llvm", "llvm-opt", "asm"]
STAGES: tuple[Stage, ...] = ("llvm", "llvm-opt", "asm")


def compile_module(module: Module, isa_name: str) -> CompiledObject:
    """Machine code of a planned module: the same bytes for the same module on any machine.

    Raises CodegenError where an op has no kernel or the module is not planned.
    """
    isa = isa_named(isa_name)
    generated = generate(module, isa)
    machine = target_machine(isa)
    parsed = parse(generated.text)
    run_passes(parsed, machine)
    return CompiledObject(
        isa=isa.name,
        machine=isa.machine,
        needs=isa.features,
        object=emit_object(parsed, machine),
        llvm_ir=generated.text,
        arena_bytes=arena_bytes(list(module.functions.values())),
        ops=generated.ops,
    )


def module_text(module: Module, isa_name: str, stage: Stage, function: str | None = None) -> str:
    """The code of a planned module as text: as generated, after LLVM's passes, or as assembly.

    `function` narrows it to a graph (`prefill`, with its kernels) or to one kernel by its name.
    """
    isa = isa_named(isa_name)
    if stage not in STAGES:
        raise CodegenError(f"stage {stage!r} is unknown; known: {', '.join(STAGES)}")
    text = _generated_text(module, isa, function)
    if stage == "llvm":
        return text
    machine = target_machine(isa)
    parsed = parse(text)
    run_passes(parsed, machine)
    return str(parsed) if stage == "llvm-opt" else emit_assembly(parsed, machine)


def _generated_text(module: Module, isa: Isa, function: str | None) -> str:
    if function is None:
        return generate(module, isa).text
    if function in module.functions:
        return generate(module, isa, [function]).text
    return generate_kernel(module, isa, function)


__all__ = [
    "ISAS",
    "STAGES",
    "CodegenError",
    "CompiledObject",
    "Generated",
    "Isa",
    "compile_module",
    "generate",
    "host_isas",
    "isa_named",
    "module_text",
]
