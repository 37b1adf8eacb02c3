"""The formats whose blocks of 32 have float16 scales of their own: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ggufc.backends.llvm.kernel_builder import Operand, Val
from ggufc.backends.llvm.quants.format import Block, Part, register
from ggufc.backends.llvm.quants.views import View, shift_bytes


def nibbles(view: View, offset: Operand) -> list[Val]:
    """The codes of 32 k: low nibbles of four vectors, then their high ones."""
    quads = view.quads(offset, 4)
    return [q & 15 for q in quads] + [shift_bytes(q, -4) & 15 for q in quads]


def with_fifth_bits(codes: list[Val], view: View, offset: Operand) -> list[Val]:
    """The nibbles with their fifth bits."""
    low, high = view.fifth_bits(offset)
    return [code | bit for code, bit in zip(codes, low + high, strict=True)]


def _blocks(
    view: View, *, fifth: int | None = None, scale: int, minimum: int | None = None
) -> Sequence[Block]:
    """The two blocks of a unit of nibbles, with the offsets of its other fields."""
    blocks = []
    for b in range(2):
        codes = nibbles(view, 256 * b)
        if fifth is not None:
            codes = with_fifth_bits(codes, view, fifth + 64 * b)
        lowest = None if minimum is None else view.f16(minimum + 32 * b)
        blocks.append(Block([Part(codes, view.f16(scale + 32 * b))], lowest))
    return blocks


def q4_0_blocks(view: View, header: Any, step: Val) -> Sequence[Block]:
    """Nibbles and scales."""
    return _blocks(view, scale=512)


def q4_1_blocks(view: View, header: Any, step: Val) -> Sequence[Block]:
    """Nibbles, scales and minima."""
    return _blocks(view, scale=512, minimum=576)


def q5_0_blocks(view: View, header: Any, step: Val) -> Sequence[Block]:
    """Nibbles, fifth bits and scales."""
    return _blocks(view, fifth=512, scale=640)


def q5_1_blocks(view: View, header: Any, step: Val) -> Sequence[Block]:
    """Nibbles, fifth bits, scales and minima."""
    return _blocks(view, fifth=512, scale=640, minimum=704)


def q8_0_blocks(view: View, header: Any, step: Val) -> Sequence[Block]:
    """Bytes and scales."""
    return [Block([Part(view.quads(512 * b, 8), view.f16(1024 + 32 * b))]) for b in range(2)]


register("q4_0", bits=4, zero=8, step_k=64, blocks=q4_0_blocks)
register("q4_1", bits=4, zero=0, step_k=64, blocks=q4_1_blocks)
register("q5_0", bits=5, zero=16, step_k=64, blocks=q5_0_blocks)
register("q5_1", bits=5, zero=0, step_k=64, blocks=q5_1_blocks)
register("q8_0", bits=8, zero=128, step_k=64, blocks=q8_0_blocks)
