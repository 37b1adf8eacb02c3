"""What a kernel is: one native function for one distinct op signature, and the registry of their
emitters.

Every kernel has the same calling convention: a pointer for each operand that is present, in
declared order (values: their buffer; weights: their place in weights.bin; states: their memory), a
pointer for each result, then

    i64 n        run-time size of the leading symbolic dimension (tokens T, sequences B, or rows R)
    i64 context  run-time C of the states
    i64 tid      this thread, 0 .. threads - 1
    i64 threads
    ptr pool     for barriers inside a kernel

and computes only its thread's share. The caller places a barrier after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import I64, PTR, Function, Module, Type, Val
from ggufc.backends.llvm.shares import shares
from ggufc.ir import TensorType

Kind = Literal["value", "weight", "state"]
TAIL: tuple[tuple[str, Type], ...] = (
    ("n", I64),
    ("context", I64),
    ("tid", I64),
    ("threads", I64),
    ("pool", PTR),
)


@dataclass(frozen=True)
class OperandSignature:
    """An operand as its kernel sees it; `layout` is set for weights."""

    name: str
    kind: Kind
    type: TensorType
    layout: str | None = None


@dataclass(frozen=True)
class OpSignature:
    """All that the code of a kernel depends on; ops with equal signatures share a function."""

    op: str
    attributes: tuple[tuple[str, Any], ...]
    operands: tuple[OperandSignature, ...]
    results: tuple[TensorType, ...]
    phase: Literal["prefill", "decode"]

    def attribute(self, name: str) -> Any:
        """The value of an attribute."""
        return dict(self.attributes)[name]

    def named(self, name: str) -> list[OperandSignature]:
        """The operands of a declared name: none if absent, several if variadic."""
        return [o for o in self.operands if o.name == name]


class Kernel:
    """The function of one signature under construction, with its operands by name."""

    def __init__(
        self,
        module: Module,
        name: str,
        signature: OpSignature,
        isa: Isa,
        *,
        exported: bool = False,
    ) -> None:
        self.signature, self.isa = signature, isa
        params = [(f"a{i}", PTR) for i in range(len(signature.operands))]
        params += [(f"r{i}", PTR) for i in range(len(signature.results))]
        self.f: Function = module.function(
            name, [*params, *TAIL], exported=exported, attributes="nounwind noinline"
        )
        self.n, self.context = self.f.arg("n"), self.f.arg("context")
        self.tid, self.threads, self.pool = (self.f.arg(a) for a in ("tid", "threads", "pool"))

    def pointers(self, name: str) -> list[Val]:
        """Pointers of all operands of a declared name."""
        present = enumerate(self.signature.operands)
        return [self.f.arg(f"a{i}") for i, operand in present if operand.name == name]

    def pointer(self, name: str) -> Val:
        """The pointer of the one operand of this name."""
        (pointer,) = self.pointers(name)
        return pointer

    def result(self, index: int = 0) -> Val:
        """The pointer of a result."""
        return self.f.arg(f"r{index}")

    def share(self, count: Val | int) -> tuple[Val, Val]:
        """This thread's part [begin, end) of `count` pieces of work; parts are in thread order."""
        total = self.f.coerce(count, I64)
        return total * self.tid // self.threads, total * (self.tid + 1) // self.threads

    @contextmanager
    def shares(self, count: Val | int, smallest: int = 1) -> Iterator[tuple[Val, Val]]:
        """A loop over parts [begin, end) of `count` pieces of work that this thread does.

        In prefill threads take parts, multiples of `smallest`, as they get on; in decode, whose ops
        are too short for that, each has its fixed part. No result may depend on it.
        """
        total = self.f.coerce(count, I64)
        if self.signature.phase == "decode":
            yield self.share(total)
            return
        with shares(self.f, self.pool, self.tid, self.threads, total, smallest) as part:
            yield part


Emitter = Callable[[Kernel], None]
EMITTERS: dict[str, Emitter] = {}


def kernel(op: str) -> Callable[[Emitter], Emitter]:
    """Register the emitter of an op: it writes the body of a kernel's function."""

    def register(emitter: Emitter) -> Emitter:
        if op in EMITTERS:
            raise ValueError(f"op {op!r} has two emitters")
        EMITTERS[op] = emitter
        return emitter

    return register


def attributes_key(attributes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Attributes in a hashable, ordered form."""
    return tuple(sorted(attributes.items()))
