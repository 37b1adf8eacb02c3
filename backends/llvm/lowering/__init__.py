"""What kernels need of an instruction set beyond LLVM's own operations, lowered for each."""

from ggufc.backends.llvm.lowering.dot import BlockDot, CodeType, block_dot, prepare_codes
from ggufc.backends.llvm.lowering.halves import bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16
from ggufc.backends.llvm.lowering.lookup import lookup
from ggufc.backends.llvm.lowering.small_floats import e4m3_halved_to_f32, e8m0_halved_to_f32

__all__ = [
    "BlockDot",
    "CodeType",
    "bf16_to_f32",
    "block_dot",
    "e4m3_halved_to_f32",
    "e8m0_halved_to_f32",
    "f16_to_f32",
    "f32_to_bf16",
    "f32_to_f16",
    "lookup",
    "prepare_codes",
]
