"""Bytes picked from a table of 16 by vectors of indices below 16."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import I8, Val

# Bytes of a register, the feature that its instruction needs, and the intrinsic. Those of x86 look
# into each 16 bytes of the table by themselves.
_X86 = (
    (64, "avx512bw", "x86.avx512.pshuf.b.512"),
    (32, "avx2", "x86.avx2.pshuf.b"),
    (16, "ssse3", "x86.ssse3.pshuf.b.128"),
)
_PART = 16


def lookup(isa: Isa, table: Sequence[int], indices: Val) -> Val:
    """table[i] for every byte i of a vector of 16 bytes or a multiple; `table` has 16 bytes."""
    for size, feature, name in _X86:
        if feature in isa.features and indices.type.lanes == size:
            content = indices.f.const_lanes(I8, list(table) * (size // len(table)))
            return indices.f.intrinsic(name, indices.type, [content, indices])
    return _in_parts(_neon if isa.machine == "aarch64" else _selected, table, indices)


def _in_parts(one: Callable[[Sequence[int], Val], Val], table: Sequence[int], indices: Val) -> Val:
    f, starts = indices.f, range(0, indices.type.lanes, _PART)
    parts = [one(table, f.shuffle(indices, None, range(i, i + _PART))) for i in starts]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [f.shuffle(a, b, range(2 * a.type.lanes)) for a, b in pairs]
    return parts[0]


def _neon(table: Sequence[int], indices: Val) -> Val:
    content = indices.f.const_lanes(I8, table)
    args = [content, indices]
    return indices.f.intrinsic("aarch64.neon.tbl1", content.type, args, (content.type,))


def _selected(table: Sequence[int], indices: Val) -> Val:
    """A call, since there are too many instructions to repeat them for every vector."""
    module, name = indices.f.module, f"lookup.{bytes(table).hex()}"
    if name not in module.functions:
        attributes = "nounwind noinline"
        f = module.function(name, [("indices", indices.type)], indices.type, attributes=attributes)
        f.ret(_select(table, f.arg("indices")))
    return indices.f.call(module.functions[name].ref, indices.type, [indices])


def _select(table: Sequence[int], indices: Val) -> Val:
    """Halves of the table are chosen bit by bit."""
    f = indices.f
    chosen = [f.const(indices.type, entry) for entry in table]
    for bit in range(4):
        is_set = (indices & (1 << bit)).ne(0)
        pairs = zip(chosen[::2], chosen[1::2], strict=True)
        chosen = [f.select(is_set, high, low) for low, high in pairs]
    return chosen[0]
