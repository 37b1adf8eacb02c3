"""Bytes picked from a table of 16 by vectors of indices below 16."""

from __future__ import annotations

from collections.abc import Sequence

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import I8, Val

# Bytes of a register, the feature that its instruction needs, and the intrinsic. Those of x86 look
# into each 16 bytes of the table by themselves.
_X86 = (
    (64, "avx512bw", "x86.avx512.pshuf.b.512"),
    (32, "avx2", "x86.avx2.pshuf.b"),
    (16, "ssse3", "x86.ssse3.pshuf.b.128"),
)
_NEON_BYTES = 16


def lookup(isa: Isa, table: Sequence[int], indices: Val) -> Val:
    """table[i] for every byte i of a vector of 16 bytes or a multiple; `table` has 16 bytes."""
    if isa.machine == "aarch64":
        return _neon(table, indices)
    for size, feature, name in _X86:
        if feature in isa.features and indices.type.lanes == size:
            content = indices.f.const_lanes(I8, list(table) * (size // len(table)))
            return indices.f.intrinsic(name, indices.type, [content, indices])
    return _selected(table, indices)


def _neon(table: Sequence[int], indices: Val) -> Val:
    f, content = indices.f, indices.f.const_lanes(I8, table)
    parts = []
    for first in range(0, indices.type.lanes, _NEON_BYTES):
        part = f.shuffle(indices, None, range(first, first + _NEON_BYTES))
        args = [content, part]
        parts.append(f.intrinsic("aarch64.neon.tbl1", content.type, args, (content.type,)))
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [f.shuffle(a, b, range(2 * a.type.lanes)) for a, b in pairs]
    return parts[0]


def _selected(table: Sequence[int], indices: Val) -> Val:
    """Halves of the table are chosen bit by bit."""
    f = indices.f
    chosen = [f.const(indices.type, entry) for entry in table]
    for bit in range(4):
        is_set = (indices & (1 << bit)).ne(0)
        pairs = zip(chosen[::2], chosen[1::2], strict=True)
        chosen = [f.select(is_set, high, low) for low, high in pairs]
    return chosen[0]
