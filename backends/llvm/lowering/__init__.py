"""What kernels need of an instruction set beyond LLVM's own operations, each lowered for every one of them."""

from ggufc.backends.llvm.lowering.dot import BlockDot, block_dot, dot_lanes
from ggufc.backends.llvm.lowering.halves import bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16

__all__ = [
    "BlockDot",
    "bf16_to_f32",
    "block_dot",
    "dot_lanes",
    "f16_to_f32",
    "f32_to_bf16",
    "f32_to_f16",
]
