"""Object files and assembly text of an LLVM module, and the symbols of an object file.

An object must stand alone: it is linked by a loader that offers it nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import llvmlite.binding as llvm

from ggufc.backends.llvm.optimize import CodegenError

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _UNDEFINED, _LOCAL = 2, 0, 0


@dataclass(frozen=True)
class Symbols:
    """The names in an object file that other objects see, and those that it wants from them."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


def emit_object(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> bytes:
    """The ELF object of a module; CodegenError names the symbols that it would leave undefined."""
    content = bytes(machine.emit_object(module))
    missing = symbols(content).undefined
    if missing:
        raise CodegenError(
            f"object for {machine.triple}: undefined symbols {', '.join(missing)}; "
            "generated code must not call anything outside itself"
        )
    return content


def emit_assembly(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> str:
    """The assembly text of a module."""
    return str(machine.emit_assembly(module))


def symbols(content: bytes) -> Symbols:
    """The global symbols of an ELF64 object, sorted by name; CodegenError where it is none."""
    if not content.startswith(_ELF64_LITTLE):
        raise CodegenError(f"object code begins with {content[:6].hex()}, expected an ELF64 header")
    sections = _sections(content)
    for kind, _, _, offset, size, link, *_ in sections:
        if kind == _SYMTAB:
            return _read_symbols(content[offset : offset + size], content, sections[link][3])
    raise CodegenError("object code has no symbol table")


def _sections(content: bytes) -> list[tuple[int, ...]]:
    """The section headers without their names: type, flags, address, offset, size, link ..."""
    (start,) = struct.unpack_from("<Q", content, 0x28)
    _, count = struct.unpack_from("<HH", content, 0x3A)
    return [_SECTION.unpack_from(content, start + i * _SECTION.size)[1:] for i in range(count)]


def _read_symbols(table: bytes, content: bytes, strings: int) -> Symbols:
    defined: list[str] = []
    undefined: list[str] = []
    for name_at, info, _, section, _, _ in _SYMBOL.iter_unpack(table):
        if info >> 4 == _LOCAL:
            continue
        start = strings + name_at
        name = content[start : content.index(b"\0", start)].decode()
        (undefined if section == _UNDEFINED else defined).append(name)
    return Symbols(tuple(sorted(defined)), tuple(sorted(undefined)))
