"""A planned module as LLVM text: its distinct kernels, graphs, thread pool and entry points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ggufc.backends.llvm import kernels
from ggufc.backends.llvm.entry_points import Graph, define_entry, define_version
from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel import EMITTERS, Kernel, OpSignature
from ggufc.backends.llvm.kernel_builder import Module as LlvmModule
from ggufc.backends.llvm.optimize import CodegenError, data_layout
from ggufc.backends.llvm.signatures import describe, kernel_name, needs_kernel, signature
from ggufc.backends.llvm.threading import define_pool
from ggufc.ir import Function, Module

kernels.load()


@dataclass(frozen=True)
class Generated:
    """LLVM text, and for each function the name of the kernel of each op (None for views)."""

    text: str
    ops: dict[str, tuple[str | None, ...]]


def generate(module: Module, isa: Isa, functions: Iterable[str] | None = None) -> Generated:
    """The whole object's code, or that of the named functions only."""
    chosen = [module.functions[name] for name in functions or module.functions]
    out = LlvmModule(module.name, isa.triple, data_layout(isa))
    names: dict[OpSignature, str] = {}
    ops = {function.name: _name_ops(function, names) for function in chosen}
    for wanted, name in names.items():
        emit_kernel(out, name, wanted, isa)
    define_version(out)
    define_pool(out, isa)
    for function in chosen:
        graph = Graph(out, isa, module, function)
        graph.emit(ops[function.name])
        define_entry(out, module, function, graph.f.ref)
    return Generated(out.text(), ops)


def generate_kernel(module: Module, isa: Isa, name: str) -> str:
    """LLVM text with the one kernel of this name, exported; CodegenError lists the kernels."""
    names: dict[OpSignature, str] = {}
    for function in module.functions.values():
        _name_ops(function, names)
    wanted = next((s for s, found in names.items() if found == name), None)
    if wanted is None:
        raise CodegenError(f"no kernel {name!r}; the kernels are {', '.join(names.values())}")
    out = LlvmModule(name, isa.triple, data_layout(isa))
    emit_kernel(out, name, wanted, isa, exported=True)
    define_pool(out, isa)
    return out.text()


def emit_kernel(
    out: LlvmModule, name: str, wanted: OpSignature, isa: Isa, exported: bool = False
) -> None:
    """Emit the kernel of a signature; errors say which one it was."""
    try:
        EMITTERS[wanted.op](Kernel(out, name, wanted, isa, exported=exported))
    except (CodegenError, NotImplementedError) as error:
        raise CodegenError(f"{isa.name}: {describe(wanted)}: {error}") from None


def _name_ops(function: Function, names: dict[OpSignature, str]) -> tuple[str | None, ...]:
    """The kernel of each op; signatures that are new get a name."""
    return tuple(
        _name_of(signature(function, op), names) if needs_kernel(op) else None
        for op in function.ops
    )


def _name_of(wanted: OpSignature, names: dict[OpSignature, str]) -> str:
    return names.setdefault(wanted, kernel_name(wanted, len(names)))
