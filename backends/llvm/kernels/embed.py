"""`embed`: the table's row of each token, decoded to float32 from whatever layout the table has."""

from __future__ import annotations

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, I16, I32, I64, Val
from ggufc.backends.llvm.layouts import GROUP_ROWS, RAW, Layout, layout_named
from ggufc.backends.llvm.lowering.halves import bf16_to_f32, f16_to_f32
from ggufc.backends.llvm.quants import BLOCK_K, FORMATS, Block, Format, OneRow
from ggufc.ir.types import max_dim

# Tokens that a thread takes at a time at least.
_PART_TOKENS = 8


@kernel("embed")
def emit_embed(k: Kernel) -> None:
    """Threads share the tokens; an id beyond the table reads its last row."""
    (table,) = k.signature.named("table")
    layout = layout_named(table.layout or "")
    vocabulary, width = (max_dim(d) for d in table.type.shape)
    with k.shares(k.n, _PART_TOKENS) as (begin, end), k.f.loop(end, begin, name="token") as token:
        row = k.f.load(k.pointer("tokens") + token * 4, I32).zext(I64)
        row = k.f.smin(row, k.f.const(I64, vocabulary - 1))
        _Row(k, layout, width, row, k.result() + token * (4 * width)).emit()


class _Row:
    """Decodes one row of the table to `out`."""

    def __init__(self, k: Kernel, layout: Layout, width: int, row: Val, out: Val) -> None:
        self.k, self.f, self.layout, self.width, self.out = k, k.f, layout, width, out
        self.scale = float(k.signature.attribute("scale"))
        self.row = row % GROUP_ROWS
        if layout is RAW:
            self.pointer = k.pointer("table") + row * (4 * width)
        else:
            group = row // GROUP_ROWS * layout.group_bytes(width)
            self.pointer = k.pointer("table") + group

    def emit(self) -> None:
        """Write the row."""
        fmt = FORMATS.get(self.layout.name)
        if fmt is not None:
            self._quantized(fmt)
            return
        with self.f.loop(self.width, name="k") as at:
            self._store(self._element(at), at)

    def _element(self, at: Val) -> Val:
        """One value of a layout without blocks."""
        if self.layout is RAW:
            return self.f.load(self.pointer + at * 4, F32)
        unit = self.pointer + at // self.layout.unit_k * self.layout.unit_bytes + self.row * 4
        if self.layout.type_name == "f32":
            return self.f.load(unit, F32)
        bits = self.f.load(unit + at % 2 * 2, I16)
        return (
            bf16_to_f32(bits) if self.layout.type_name == "bf16" else f16_to_f32(self.k.isa, bits)
        )

    def _store(self, value: Val, at: Val) -> None:
        self.f.store(value if self.scale == 1.0 else value * self.scale, self.out + at * 4)

    def _quantized(self, fmt: Format) -> None:
        whole, rest = divmod(self.width, fmt.layout.unit_k)
        with self.f.loop(whole, name="unit") as unit:
            self._unit(fmt, unit, fmt.layout.unit_k)
        if rest:
            self._unit(fmt, self.f.const(I64, whole), rest)

    def _unit(self, fmt: Format, unit: Val, columns: int) -> None:
        """The first `columns` values of a unit; a unit that is not whole is one step."""
        view = OneRow(self.f, self.k.isa, self.pointer + unit * fmt.layout.unit_bytes, self.row)
        header = fmt.header(view)
        with self.f.loop(fmt.steps, name="step") as step:
            start = unit * fmt.layout.unit_k + step * fmt.step_k
            for i, block in enumerate(fmt.blocks(view, header, step)):
                if i * BLOCK_K < columns:
                    self._block(fmt, block, start + i * BLOCK_K)

    def _block(self, fmt: Format, block: Block, at: Val) -> None:
        for part in block.parts:
            for codes in part.codes:
                value = (codes.uitofp() - float(fmt.codes.zero)) * part.scale
                added = block.added(part)
                if added is not None:
                    value = value + added
                self._store(value, at)
                at = at + codes.type.lanes
