"""The tile functions of a module, one for each layout, K and number of tokens."""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import PTR, Module
from ggufc.backends.llvm.kernels.decoded_tile import DecodedTile
from ggufc.backends.llvm.kernels.float_tile import FloatTile
from ggufc.backends.llvm.kernels.int8_tile import Int8Tile
from ggufc.backends.llvm.kernels.tile import Tile, TileShape
from ggufc.backends.llvm.layouts import Layout
from ggufc.backends.llvm.quants import FORMATS


def tile_function(
    module: Module,
    isa: Isa,
    layout: Layout,
    k: int,
    shape: TileShape,
    *,
    prefetch: bool,
    activation: str,
) -> str:
    """The reference of the tile function of a layout and an element type of x, defined in the
    module when first wanted."""
    suffix = ".ahead" if prefetch else ""
    name = f"tile.{layout.name}.{activation}.k{k}.t{shape.tokens}{suffix}"
    if name not in module.functions:
        params = [("weights", PTR), ("x", PTR), ("sums", PTR)]
        f = module.function(name, params, attributes="nounwind noinline")
        _kind(layout, activation)(f, isa, layout, k, shape, prefetch).emit()
    return module.functions[name].ref


def _kind(layout: Layout, activation: str) -> type[Tile]:
    if layout.name not in FORMATS:
        return FloatTile
    return Int8Tile if activation == "q8a" else DecodedTile
