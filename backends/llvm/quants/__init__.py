"""How kernels read the units of each packed quantised layout."""

from ggufc.backends.llvm.quants import blocks_of_32, codebook_nibbles, k_quants, low_bits
from ggufc.backends.llvm.quants.format import BLOCK_K, FORMATS, Block, Format, Part, format_for
from ggufc.backends.llvm.quants.views import OneRow, Rows, View

__all__ = [
    "BLOCK_K",
    "FORMATS",
    "Block",
    "Format",
    "OneRow",
    "Part",
    "Rows",
    "View",
    "blocks_of_32",
    "codebook_nibbles",
    "format_for",
    "k_quants",
    "low_bits",
]
