"""From LLVM text to an optimised LLVM module for one instruction set.

Kernels are written in the form that they should have in the end: vectors, unrolled bodies and loops
are explicit. Promoting variables to registers is all that is left to do; LLVM's whole -O3 pipeline
was measured to give no faster code, many times slower.
"""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from ggufc.backends.llvm.isa import Isa
from ggufc.ir import IRError

_CODEGEN_LEVEL = 2


class CodegenError(IRError):
    """The backend cannot make code of a module; the message names the function, op or symbol."""


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def target_machine(isa: Isa) -> llvm.TargetMachine:
    """The machine that code is made for: the instruction set's features, never this host's."""
    _initialize()
    features = ",".join(f"+{name}" for name in isa.features)
    return llvm.Target.from_triple(isa.triple).create_target_machine(
        cpu=isa.cpu, features=features, opt=_CODEGEN_LEVEL, reloc="pic", codemodel="small"
    )


@cache
def data_layout(isa: Isa) -> str:
    """How the instruction set lays out types in memory, as a module states it."""
    return str(target_machine(isa).target_data)


def parse(text: str) -> llvm.ModuleRef:
    """Parse and verify LLVM text; CodegenError with LLVM's message on one line."""
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"LLVM refuses the module: {' '.join(str(error).split())}") from None
    return module


def run_passes(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Promote variables to registers, in place."""
    options = llvm.create_pipeline_tuning_options(speed_level=_CODEGEN_LEVEL)
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, builder)
