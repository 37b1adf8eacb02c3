"""The formats with codes of 1 to 3 bits: Q1_0, Q2_0, TQ2_0, Q2_K, Q3_K, and the grids IQ1, IQ2.

A byte holds the codes of the same place in consecutive runs of 16 k, the first lowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ggufc.backends.llvm.codebooks import CODEBOOKS, Codebook
from ggufc.backends.llvm.kernel_builder import Operand, Val
from ggufc.backends.llvm.lowering import lookup
from ggufc.backends.llvm.quants.format import Block, Part, register
from ggufc.backends.llvm.quants.views import View, shift_bytes, shift_bytes_right

Codes = list[Val]
_RUNS = range(4)


def _pairs(parts: Sequence[Part]) -> list[Block]:
    """Four parts of 16 k as two blocks."""
    return [Block(parts[:2]), Block(parts[2:])]


def two_bits(view: View, offset: Operand) -> list[Codes]:
    """Four runs of 16 codes of 2 bits."""
    quads = view.quads(offset, 4)
    return [[shift_bytes(q, -2 * s) & 3 for q in quads] for s in _RUNS]


def one_bit(view: View, offset: Operand, step: Val, place: int) -> list[Codes]:
    """Four runs of 16 bits, at bit `place` of a byte each; of every eight, even steps have the
    first four."""
    first = (step & 1) * 4
    quads = [shift_bytes_right(q, first) for q in view.quads(offset, 4)]
    return [[shift_bytes(q, place - s) & (1 << place) for q in quads] for s in _RUNS]


def d_header(view: View) -> Val:
    """The unit's d."""
    return view.f16(0)


def q1_0_blocks(view: View, header: Any, step: Val) -> Sequence[Block]:
    """Bits, as the codes 0 and 2, and one scale."""
    d, runs = view.f16(256), one_bit(view, 0, step, 1)
    return [Block([Part(runs[i] + runs[i + 1], d)]) for i in (0, 2)]


def q2_0_blocks(view: View, header: Any, step: Val) -> Sequence[Block]:
    """Two-bit codes and one scale."""
    d, runs = view.f16(256), two_bits(view, 0)
    return [Block([Part(runs[i] + runs[i + 1], d)]) for i in (0, 2)]


def tq2_0_header(view: View) -> Val:
    """The unit's d."""
    return view.f16(1024)


def tq2_0_blocks(view: View, header: Val, step: Val) -> Sequence[Block]:
    """Two-bit codes."""
    runs = two_bits(view, step * 256)
    return [Block([Part(runs[i] + runs[i + 1], header)]) for i in (0, 2)]


def q2_k_header(view: View) -> tuple[Val, Val]:
    """The unit's d and dmin."""
    return view.f16(0), view.f16(32)


def q2_k_blocks(view: View, header: tuple[Val, Val], step: Val) -> Sequence[Block]:
    """Sub-blocks of 16 with a scale and a minimum of 4 bits each."""
    parts = []
    for s, codes in enumerate(two_bits(view, step * 256 + 320)):
        both = view.i8(step * 64 + (64 + 16 * s))
        scale, minimum = (field.uitofp() for field in (both & 15, both >> 4))
        parts.append(Part(codes, header[0] * scale, header[1] * minimum))
    return _pairs(parts)


def _three_bits(view: View, step: Val) -> list[Codes]:
    """Four runs of 16 codes of 3 bits."""
    low, high = two_bits(view, step * 256 + 320), one_bit(view, (step >> 1) * 256 + 1344, step, 2)
    return [[a | b for a, b in zip(*runs, strict=True)] for runs in zip(low, high, strict=True)]


def q3_k_blocks(view: View, header: Val, step: Val) -> Sequence[Block]:
    """Sub-blocks of 16 with scales of 8 bits."""
    scales = [header * view.i8(step * 64 + (64 + 16 * s)).sitofp() for s in _RUNS]
    parts = [Part(codes, d) for codes, d in zip(_three_bits(view, step), scales, strict=True)]
    return _pairs(parts)


def iq2_header(view: View) -> Val:
    """The unit's d times the grids' factor."""
    return view.f16(0) * _IQ2.factor


def iq2_blocks(view: View, header: Val, step: Val) -> Sequence[Block]:
    """As Q3_K, with values looked up."""
    parts = []
    for s, indices in enumerate(_three_bits(view, step)):
        codes = [lookup(view.isa, _IQ2.codes, index) for index in indices]
        parts.append(Part(codes, header * view.i8(step * 64 + (64 + 16 * s)).uitofp()))
    return _pairs(parts)


def iq1_header(view: View) -> Val:
    """An eighth of the unit's d: values are its multiples."""
    return view.f16(0) * 0.125


def iq1_blocks(view: View, header: Val, step: Val) -> Sequence[Block]:
    """A grid's -8, 0 or 8, and 1 more or less for each eight k: 16 + 8 (q - 1) + 1 - 2 sign."""
    parts = []
    quads = view.quads(step * 256 + 320, 4)
    for s in _RUNS:
        both = view.i8(step * 64 + (64 + 16 * s))
        offsets = view.spread(*(9 - (both >> bit & 1) * 2 for bit in (4, 5)))
        eights = [shift_bytes(q, 3 - 2 * s) & 0x18 for q in quads]
        codes = [a + b for a, b in zip(eights, offsets, strict=True)]
        parts.append(Part(codes, header * (both & 15).uitofp()))
    return _pairs(parts)


_IQ2: Codebook = CODEBOOKS["iq2_s"]

register("q1_0", bits=2, zero=1, step_k=64, blocks=q1_0_blocks)
register("q2_0", bits=2, zero=1, step_k=64, blocks=q2_0_blocks)
register("tq2_0", bits=2, zero=1, step_k=64, header=tq2_0_header, blocks=tq2_0_blocks)
register("q2_k", bits=2, zero=0, step_k=64, header=q2_k_header, blocks=q2_k_blocks)
register("q3_k", bits=3, zero=4, step_k=64, header=d_header, blocks=q3_k_blocks)
register("iq2_s", bits=_IQ2.bits, zero=_IQ2.zero, step_k=64, header=iq2_header, blocks=iq2_blocks)
register("iq1_m", bits=5, zero=16, step_k=64, header=iq1_header, blocks=iq1_blocks)
