"""The language of ggufc: types, ops, modules, their text, their rules and their meaning.

Imports only the standard library and NumPy. See docs/architecture.md.
"""

from ggufc.ir import ops, quants, stages
from ggufc.ir.builder import GraphBuilder
from ggufc.ir.core import Buffer, Function, Leaf, Module, Op, Operand, State, Value, Weight, leaves
from ggufc.ir.errors import IRError, OperandError, ParseError, RewriteError, VerifyError
from ggufc.ir.interpreter import Interpreter, States
from ggufc.ir.numerics import Q8aArray, bf16_to_f32, f32_to_bf16, quantize_q8a, to_f32
from ggufc.ir.opdef import (
    OPS,
    AttributeSpec,
    Elementwise,
    InPlace,
    OpDef,
    OperandSpec,
    Pure,
    StateEffect,
    View,
    defop,
    op_definition,
)
from ggufc.ir.parser import parse_module
from ggufc.ir.printer import format_name, format_op, print_module
from ggufc.ir.quant_reference import decode
from ggufc.ir.quants import QUANTS, QuantType, by_ggml_id, quant
from ggufc.ir.rewriter import RewritePattern, Rewriter, apply_patterns
from ggufc.ir.stages import FUSED, GRAPH, PLANNED, STAGES, view_root, viewed
from ggufc.ir.types import (
    BF16,
    DTYPES,
    F16,
    F32,
    I8,
    I32,
    Q8A,
    Dim,
    DType,
    Symbol,
    TensorType,
    dtype,
    max_dim,
    q8a_row_stride,
    round_up,
)
from ggufc.ir.verifier import verify

__all__ = [
    "BF16",
    "DTYPES",
    "F16",
    "F32",
    "FUSED",
    "GRAPH",
    "I8",
    "I32",
    "OPS",
    "PLANNED",
    "Q8A",
    "QUANTS",
    "STAGES",
    "AttributeSpec",
    "Buffer",
    "DType",
    "Dim",
    "Elementwise",
    "Function",
    "GraphBuilder",
    "IRError",
    "InPlace",
    "Interpreter",
    "Leaf",
    "Module",
    "Op",
    "OpDef",
    "Operand",
    "OperandError",
    "OperandSpec",
    "ParseError",
    "Pure",
    "Q8aArray",
    "QuantType",
    "RewriteError",
    "RewritePattern",
    "Rewriter",
    "State",
    "StateEffect",
    "States",
    "Symbol",
    "TensorType",
    "Value",
    "VerifyError",
    "View",
    "Weight",
    "apply_patterns",
    "bf16_to_f32",
    "by_ggml_id",
    "decode",
    "defop",
    "dtype",
    "f32_to_bf16",
    "format_name",
    "format_op",
    "leaves",
    "max_dim",
    "op_definition",
    "ops",
    "parse_module",
    "print_module",
    "q8a_row_stride",
    "quant",
    "quantize_q8a",
    "quants",
    "round_up",
    "stages",
    "to_f32",
    "verify",
    "view_root",
    "viewed",
]
