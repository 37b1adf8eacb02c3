"""The tile functions of a module, one for each layout, K and number of tokens."""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import PTR, Module
from ggufc.backends.llvm.kernels.float_tile import FloatTile
from ggufc.backends.llvm.kernels.int8_tile import Int8Tile
from ggufc.backends.llvm.kernels.tile import TileShape
from ggufc.backends.llvm.layouts import Layout
from ggufc.backends.llvm.quants import FORMATS


def tile_function(
    module: Module, isa: Isa, layout: Layout, k: int, shape: TileShape, *, prefetch: bool
) -> str:
    """The reference of the tile function of a layout, defined in the module when first wanted."""
    suffix = ".ahead" if prefetch else ""
    name = f"tile.{layout.name}.k{k}.t{shape.tokens}{suffix}"
    if name not in module.functions:
        params = [("weights", PTR), ("x", PTR), ("sums", PTR)]
        f = module.function(name, params, attributes="nounwind noinline")
        kind = Int8Tile if layout.name in FORMATS else FloatTile
        kind(f, isa, layout, k, shape, prefetch).emit()
    return module.functions[name].ref
