"""What kernels need of an instruction set beyond LLVM's own operations, lowered for each."""

from ggufc.backends.llvm.lowering.dot import BlockDot, CodeType, block_dot, prepare_codes
from ggufc.backends.llvm.lowering.halves import bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16

__all__ = [
    "BlockDot",
    "CodeType",
    "bf16_to_f32",
    "block_dot",
    "f16_to_f32",
    "f32_to_bf16",
    "f32_to_f16",
    "prepare_codes",
]
