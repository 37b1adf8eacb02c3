"""What a backend is: something that runs the two functions of a module on NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class CompiledObject:
    """A planned module as machine code for one instruction set."""

    isa: str
    machine: str
    """The processor family, x86_64 or aarch64."""
    needs: tuple[str, ...]
    """Processor features by LLVM's names, all of which the code may use."""
    object: bytes
    """An ELF object that refers to no external symbol."""
    llvm_ir: str
    arena_bytes: int
    ops: dict[str, tuple[str | None, ...]]
    """For each function, the kernel that runs each op, in order; None for views."""

    @property
    def n_kernels(self) -> int:
        """How many distinct kernels the object holds."""
        return len(
            {kernel for names in self.ops.values() for kernel in names if kernel is not None}
        )


class Backend(Protocol):
    """Runs a module; the states (the KV cache) live in it between calls, zero at first.

    Arrays are one-dimensional int32; logits are float32 [rows, vocabulary], new for every call.
    """

    def prefill(
        self, tokens: Integers, positions: Integers, sequences: Integers, rows: Integers
    ) -> Logits:
        """Consecutive tokens of one sequence; the logits of those that `rows` names."""
        ...

    def decode(self, tokens: Integers, positions: Integers, sequences: Integers) -> Logits:
        """One token each of distinct sequences; the logits of all."""
        ...

    def close(self) -> None:
        """Give back threads and memory."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
