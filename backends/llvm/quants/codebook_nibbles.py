"""The formats whose 4-bit codes index a codebook: IQ4_NL, IQ4_XS, IQ3_XXS, IQ3_S, MXFP4, NVFP4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ggufc.backends.llvm.codebooks import CODEBOOKS, Codebook
from ggufc.backends.llvm.kernel_builder import Operand, Val
from ggufc.backends.llvm.lowering import e4m3_halved_to_f32, e8m0_halved_to_f32, lookup
from ggufc.backends.llvm.quants.blocks_of_32 import nibbles
from ggufc.backends.llvm.quants.format import Block, Part, register
from ggufc.backends.llvm.quants.views import View


def _looked_up(codebook: Codebook, view: View, offset: Operand) -> list[Val]:
    """The codes of 32 k in q4_0's order."""
    return [lookup(view.isa, codebook.codes, index) for index in nibbles(view, offset)]


def iq4_nl_blocks(view: View, header: Any, step: Val) -> Sequence[Block]:
    """Indices and float16 scales."""
    codebook = CODEBOOKS["iq4_nl"]
    return [
        Block([Part(_looked_up(codebook, view, 256 * b), view.f16(512 + 32 * b))]) for b in range(2)
    ]


def mxfp4_blocks(view: View, header: Any, step: Val) -> Sequence[Block]:
    """Doubled four-bit floats, and halved powers of two."""
    codebook, blocks = CODEBOOKS["mxfp4"], []
    for b in range(2):
        scale = e8m0_halved_to_f32(view.i8(512 + 16 * b))
        blocks.append(Block([Part(_looked_up(codebook, view, 256 * b), scale)]))
    return blocks


def nvfp4_blocks(view: View, header: Any, step: Val) -> Sequence[Block]:
    """Doubled four-bit floats, and a halved eight-bit float for each 16."""
    codebook, blocks = CODEBOOKS["nvfp4"], []
    for b in range(2):
        codes = _looked_up(codebook, view, 256 * b)
        half = len(codes) // 2
        scales = [e4m3_halved_to_f32(view.isa, view.i8(512 + 16 * (2 * b + s))) for s in range(2)]
        blocks.append(Block([Part(codes[:half], scales[0]), Part(codes[half:], scales[1])]))
    return blocks


def _with_byte_scales(
    codebook: Codebook,
) -> tuple[Callable[[View], Val], Callable[[View, Val, Val], Sequence[Block]]]:
    """Header and blocks of a unit of 256 k with one d and a signed byte for each 32."""

    def header(view: View) -> Val:
        d = view.f16(0)
        return d if codebook.factor == 1.0 else d * codebook.factor

    def blocks(view: View, header: Val, step: Val) -> Sequence[Block]:
        found = []
        for sub_block in (step * 2, step * 2 + 1):
            codes = _looked_up(codebook, view, sub_block * 256 + 192)
            found.append(Block([Part(codes, header * view.i8(sub_block * 16 + 64).sitofp())]))
        return found

    return header, blocks


def _register(
    name: str,
    blocks: Callable[[View, Any, Val], Sequence[Block]],
    header: Callable[[View], Any] = lambda view: None,
) -> None:
    book = CODEBOOKS[name]
    register(name, bits=book.bits, zero=book.zero, step_k=64, blocks=blocks, header=header)


_register("iq4_nl", iq4_nl_blocks)
_register("mxfp4", mxfp4_blocks)
_register("nvfp4", nvfp4_blocks)
for _name in ("iq4_xs", "iq3_xxs", "iq3_s"):
    _header, _blocks = _with_byte_scales(CODEBOOKS[_name])
    _register(_name, _blocks, _header)
