"""Signatures of ops for kernel tests, from shapes written as text."""

from __future__ import annotations

from typing import Any, Literal

from ggufc.backends.llvm.kernel import Kind, OperandSignature, OpSignature, attributes_key
from ggufc.ir import Symbol, TensorType, dtype

SYMBOLS = {
    "T": Symbol("T", 512),
    "B": Symbol("B", 8),
    "R": Symbol("R", 512),
    "S": Symbol("S", 8),
    "C": Symbol("C", 8192),
}


def tensor(text: str) -> TensorType:
    """The type that `f32[T, 9, 64]` spells, with the symbols above."""
    element, dims = text.rstrip("]").split("[")
    shape = [d.strip() for d in dims.split(",")]
    return TensorType(tuple(SYMBOLS.get(d) or int(d) for d in shape), dtype(element))


def op_signature(
    op: str,
    operands: dict[str, str],
    results: tuple[str, ...] = (),
    phase: Literal["prefill", "decode"] = "prefill",
    **attributes: Any,
) -> OpSignature:
    """A signature; states are the operands whose shape begins with S, `@` marks a weight."""
    return OpSignature(
        op,
        attributes_key(attributes),
        tuple(_operand(name, text) for name, text in operands.items()),
        tuple(tensor(r) for r in results),
        phase,
    )


def _operand(name: str, text: str) -> OperandSignature:
    type_ = tensor(text.removeprefix("@"))
    if text.startswith("@"):
        return OperandSignature(name, "weight", type_, "raw")
    kind: Kind = "state" if type_.shape[0] == SYMBOLS["S"] else "value"
    return OperandSignature(name, kind, type_)
