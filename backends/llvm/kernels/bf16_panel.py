"""Weights decoded to bf16 tiles of 32 k by 16 rows, two row groups side by side: a panel."""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import BF16, F32, I32, I64, PTR, Function, Module, Val, vec
from ggufc.backends.llvm.kernels.tile import LINE
from ggufc.backends.llvm.layouts import GROUP_ROWS
from ggufc.backends.llvm.lowering import f32_to_bf16
from ggufc.backends.llvm.lowering.tiles import TILE_ROW_BYTES
from ggufc.backends.llvm.quants import BLOCK_K, Block, Format, Rows
from ggufc.backends.llvm.vector_math import muladd

PANEL_GROUPS = 2
# Columns that are decoded at a time: few, so that the products of tiles hide it.
PIECE_K = 16
# Weights are asked for so far before they are decoded.
_AHEAD_BYTES = 4096


def decode_function(module: Module, isa: Isa, fmt: Format) -> str:
    """`(unit, column, tile)`: decode a piece of a group's unit, from a column on, into its tile."""
    name = f"decode.{fmt.layout.name}"
    if name not in module.functions:
        params = [("unit", PTR), ("column", I64), ("tile", PTR)]
        f = module.function(name, params, attributes="nounwind noinline")
        step, rest = f.arg("column") // fmt.step_k, f.arg("column") % fmt.step_k
        for column in range(0, fmt.step_k, PIECE_K):
            with f.if_(rest.eq(column)):
                if column == 0:
                    _ask_ahead(f, fmt, step)
                view = Rows(f, isa, f.arg("unit"), GROUP_ROWS)
                blocks = fmt.blocks(view, fmt.header(view), step)
                _decode_piece(f, isa, fmt, blocks[column // BLOCK_K], column % BLOCK_K)
    return module.functions[name].ref


def _ask_ahead(f: Function, fmt: Format, step: Val) -> None:
    for line in range(0, fmt.step_bytes, LINE):
        f.prefetch(f.arg("unit") + step * fmt.step_bytes, _AHEAD_BYTES + line, locality=2)


def _decode_piece(f: Function, isa: Isa, fmt: Format, block: Block, first: int) -> None:
    """Store rows of a tile: two k each, side by side for every weight row."""
    k = 0
    for part in block.parts:
        scale = part.scale * 256.0
        offset = -(part.scale * float(fmt.codes.zero))
        added = block.added(part)
        if added is not None:
            offset = offset + added
        for quad in part.codes:
            if first <= k < first + PIECE_K:
                values = _quad_values(f, quad, scale, offset - scale)
                for i in (0, 2):
                    row = (k + i) // 2
                    pairs = _bf16_pairs(f, isa, *values[i : i + 2])
                    f.store(pairs, f.arg("tile"), TILE_ROW_BYTES * row)
            k += 4


def _quad_values(f: Function, quad: Val, scale: Val, offset: Val) -> list[Val]:
    """The float32 values of four consecutive k; `scale` is 256 times the weight's.

    A byte q in the upper bits of a mantissa makes 1 + q / 256, which saves a conversion.
    """
    words = quad.bitcast(vec(I32, GROUP_ROWS))
    shifted = (words << 15, words << 7, words >> 1, words >> 9)
    ones = [((w & 0x7F8000) | 0x3F800000).bitcast(vec(F32, GROUP_ROWS)) for w in shifted]
    return [muladd(one, scale, offset) for one in ones]


def _bf16_pairs(f: Function, isa: Isa, low: Val, high: Val) -> Val:
    """Two vectors rounded to bf16 and interleaved."""
    if not isa.has_bf16_dot:
        return f32_to_bf16(low).zext(I32) | (f32_to_bf16(high).zext(I32) << 16)
    name = "x86.avx512bf16.cvtne2ps2bf16.512"
    both = f.intrinsic(name, vec(BF16, 2 * GROUP_ROWS), [high, low])
    order = [half * GROUP_ROWS + lane for lane in range(GROUP_ROWS) for half in range(2)]
    return f.shuffle(both, None, order)
