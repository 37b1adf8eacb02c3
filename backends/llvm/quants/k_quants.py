"""The formats with 256 k a unit and integer scales of sub-blocks: Q4_K, Q5_K, Q6_K."""

from __future__ import annotations

from collections.abc import Sequence

from ggufc.backends.llvm.kernel_builder import Val
from ggufc.backends.llvm.quants.blocks_of_32 import nibbles, with_fifth_bits
from ggufc.backends.llvm.quants.format import Block, Part, register
from ggufc.backends.llvm.quants.views import View, shift_bytes

Scales = tuple[Val, Val]


def scales_header(view: View) -> Scales:
    """The unit's d and dmin."""
    return view.f16(0), view.f16(32)


def _block(view: View, header: Scales, sub_block: Val, codes: list[Val]) -> Block:
    d, dmin = header
    scale = d * view.i8(sub_block * 16 + 64).uitofp()
    minimum = dmin * view.i8(sub_block * 16 + 192).uitofp()
    return Block([Part(codes, scale)], -minimum)


def q4_k_blocks(view: View, header: Scales, step: Val) -> Sequence[Block]:
    """Two sub-blocks of 32."""
    subs = [step * 2 + s for s in range(2)]
    return [_block(view, header, s, nibbles(view, s * 256 + 320)) for s in subs]


def q5_k_blocks(view: View, header: Scales, step: Val) -> Sequence[Block]:
    """As Q4_K, with fifth bits."""
    blocks = []
    for sub_block in (step * 2, step * 2 + 1):
        low = nibbles(view, sub_block * 256 + 320)
        codes = with_fifth_bits(low, view, sub_block * 64 + 2368)
        blocks.append(_block(view, header, sub_block, codes))
    return blocks


def q6_k_header(view: View) -> Val:
    """The unit's d."""
    return view.f16(0)


def q6_k_blocks(view: View, header: Val, step: Val) -> Sequence[Block]:
    """Four sub-blocks of 16, two to a block; sub-block s has its high bits at bits 2 s of `qh`."""
    ql = [view.quads(step * 512 + (320 + 256 * half), 4) for half in range(2)]
    qh = view.quads(step * 256 + 2368, 4)
    parts = []
    for s in range(4):
        high = [shift_bytes(q, 4 - 2 * s) & 0x30 for q in qh]
        low = [(q if s < 2 else shift_bytes(q, -4)) & 15 for q in ql[s % 2]]
        scale = header * view.i8(step * 64 + (64 + 16 * s)).sitofp()
        parts.append(Part([a | b for a, b in zip(low, high, strict=False)], scale))
    return [Block(parts[:2]), Block(parts[2:])]


register("q4_k", bits=4, zero=0, step_k=64, header=scales_header, blocks=q4_k_blocks)
register("q5_k", bits=5, zero=0, step_k=64, header=scales_header, blocks=q5_k_blocks)
register("q6_k", bits=6, zero=32, step_k=64, header=q6_k_header, blocks=q6_k_blocks)
