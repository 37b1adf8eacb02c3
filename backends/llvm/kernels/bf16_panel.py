"""Products in bf16 tiles: weights decoded to tiles a panel of 32 rows at a time, times bf16 tokens.

`decode` functions turn a run of units of one row group into tiles of 32 k by 16 rows; `multiply`
functions add the product of all tokens and one decoded panel to float32 sums [tokens][32].
"""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import (
    BF16,
    F32,
    I32,
    I64,
    PTR,
    Function,
    Module,
    Val,
    vec,
)
from ggufc.backends.llvm.layouts import GROUP_ROWS
from ggufc.backends.llvm.lowering import f32_to_bf16
from ggufc.backends.llvm.lowering.tiles import TILE_BYTES, TILE_ROW_BYTES, TILE_ROWS, tiles_of
from ggufc.backends.llvm.quants import BLOCK_K, Block, Format, Rows
from ggufc.backends.llvm.vector_math import muladd

PANEL_GROUPS = 2
SUMS_STRIDE = PANEL_GROUPS * TILE_ROW_BYTES
# Tile registers: sums of 2 x 2 tiles, two of tokens, two of weights.
_SUMS, _X, _W = ((0, 1), (2, 3)), (4, 5), (6, 7)


def decode_function(module: Module, isa: Isa, fmt: Format) -> str:
    """`(weights, units, tiles)`: decode units of a group to every second tile from `tiles` on."""
    name = f"decode.{fmt.layout.name}"
    if name not in module.functions:
        params = [("weights", PTR), ("units", I64), ("tiles", PTR)]
        f = module.function(name, params, attributes="nounwind noinline")
        with f.loop(f.arg("units"), name="unit") as unit:
            view = Rows(f, isa, f.arg("weights") + unit * fmt.layout.unit_bytes, GROUP_ROWS)
            header = fmt.header(view)
            with f.loop(fmt.steps, name="step") as step:
                first = (unit * fmt.layout.unit_k + step * fmt.step_k) // BLOCK_K
                for i, block in enumerate(fmt.blocks(view, header, step)):
                    tile = f.arg("tiles") + (first + i) * (PANEL_GROUPS * TILE_BYTES)
                    _decode_block(f, isa, fmt, block, tile)
    return module.functions[name].ref


def _decode_block(f: Function, isa: Isa, fmt: Format, block: Block, tile: Val) -> None:
    """Store 16 rows of the tile: two k each, side by side for every weight row."""
    row = 0
    for part in block.parts:
        scale = part.scale * 256.0
        offset = -(part.scale * float(fmt.codes.zero))
        added = block.added(part)
        if added is not None:
            offset = offset + added
        for quad in part.codes:
            values = _quad_values(f, quad, scale, offset - scale)
            for pair in (values[:2], values[2:]):
                f.store(_bf16_pairs(f, isa, *pair), tile, TILE_ROW_BYTES * row)
                row += 1


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


def multiply_function(module: Module, isa: Isa, k: int) -> str:
    """`(x, tiles, sums, tokens, blocks, first)`: sums = (0 if first else sums) + x * tiles.

    x points to bf16 rows 2 k bytes apart, of which `blocks` runs of 32 columns are multiplied;
    `sums` has room for a multiple of 16 tokens.
    """
    name = f"multiply.bf16.k{k}"
    if name not in module.functions:
        params = [("x", PTR), ("tiles", PTR), ("sums", PTR)]
        params += [("tokens", I64), ("blocks", I64), ("first", I64)]
        f = module.function(name, params, attributes="nounwind noinline")
        _Multiply(f, isa, 2 * k).emit()
    return module.functions[name].ref


class _Multiply:
    def __init__(self, f: Function, isa: Isa, x_stride: int) -> None:
        self.f, self.x_stride = f, x_stride
        self.tiles = tiles_of(f, isa)

    def emit(self) -> None:
        """Whole blocks of 32 tokens, then what is left with tiles of fewer rows."""
        f, tokens, two = self.f, self.f.arg("tokens"), 2 * TILE_ROWS
        whole = tokens // two * two
        self._configure(TILE_ROWS, TILE_ROWS)
        with f.loop(whole, step=two, name="tokens") as token:
            self._block(token, 2)
        rest = tokens - whole
        with f.if_(f.const(I64, TILE_ROWS) < rest):
            self._configure(TILE_ROWS, rest - TILE_ROWS)
            self._block(whole, 2)
        with f.if_((rest <= TILE_ROWS) & (f.const(I64, 0) < rest)):
            self._configure(rest, TILE_ROWS)
            self._block(whole, 1)

    def _configure(self, first: Val | int, second: Val | int) -> None:
        self.tiles.configure([first, first, second, second, first, second, TILE_ROWS, TILE_ROWS])

    def _block(self, token: Val, rows: int) -> None:
        """One or two tiles of tokens by the panel's two tiles of weights."""
        f, tiles = self.f, self.tiles
        sums = f.arg("sums") + token * SUMS_STRIDE
        every = [(r, c) for r in range(rows) for c in range(PANEL_GROUPS)]
        at = {(r, c): sums + (r * TILE_ROWS * SUMS_STRIDE + c * TILE_ROW_BYTES) for r, c in every}
        first = f.arg("first").ne(0)
        with f.if_(first):
            for r, c in every:
                tiles.zero(_SUMS[r][c])
        with f.if_(first.eq(0)):
            for r, c in every:
                tiles.load(_SUMS[r][c], at[r, c], SUMS_STRIDE)
        x = f.arg("x") + token * self.x_stride
        with f.loop(f.arg("blocks"), name="k") as k:
            self._step(x + k * TILE_ROW_BYTES, k, rows)
        for r, c in every:
            tiles.store(_SUMS[r][c], at[r, c], SUMS_STRIDE)

    def _step(self, x: Val, k: Val, rows: int) -> None:
        weights = self.f.arg("tiles") + k * (PANEL_GROUPS * TILE_BYTES)
        for c in range(PANEL_GROUPS):
            self.tiles.load(_W[c], weights + c * TILE_BYTES, TILE_ROW_BYTES)
        for r in range(rows):
            # Tokens pass once a panel: they should not drive the weights out of the first cache.
            start = x + r * TILE_ROWS * self.x_stride
            self.tiles.load(_X[r], start, self.x_stride, once=True)
            for c in range(PANEL_GROUPS):
                self.tiles.multiply_bf16(_SUMS[r][c], _X[r], _W[c])
