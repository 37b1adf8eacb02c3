"""Runs a module through the interpreter, with the interface of compiled code."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np

from ggufc.backends.base import Integers, Logits
from ggufc.ir import Interpreter, IRError, Module
from ggufc.ir.interpreter import Listener, WeightSource, sequence_lengths


class ReferenceBackend:
    """A module at any stage, with states of its own that begin as zero.

    `weights` gives the float32 array of each weight that comes from a file. `context` and
    `sequences` default to the largest that the states allow; `listener` is called after each op.
    """

    def __init__(
        self,
        module: Module,
        weights: WeightSource,
        *,
        context: int | None = None,
        sequences: int | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._module = module
        self._interpreter = Interpreter(module, weights, listener)
        limits = {s.name: s.max for state in module.states.values() for s in state.type.symbols()}
        self._states = self._interpreter.new_states(
            limits.get("C", 1) if context is None else context,
            limits.get("S", 1) if sequences is None else sequences,
        )

    def prefill(
        self, tokens: Integers, positions: Integers, sequences: Integers, rows: Integers
    ) -> Logits:
        """Run consecutive tokens of one sequence; the logits of those that `rows` names."""
        return self._run(
            "prefill", tokens=tokens, positions=positions, sequences=sequences, rows=rows
        )

    def decode(self, tokens: Integers, positions: Integers, sequences: Integers) -> Logits:
        """Run one token each of distinct sequences; the logits of all."""
        return self._run("decode", tokens=tokens, positions=positions, sequences=sequences)

    def embed(
        self, tokens: Integers, positions: Integers, sequences: Integers, rows: Integers
    ) -> Logits:
        """As `prefill`, the embeddings of the tokens; without a cache, of whole texts, each with a
        number of its own in `sequences`."""
        lengths = sequence_lengths(np.asarray(positions), np.asarray(sequences))
        inputs = dict(tokens=tokens, positions=positions, sequences=sequences, rows=rows)
        inputs["lengths"] = lengths
        wanted = [value.name for value in self._module.functions["embed"].inputs]
        return self._run("embed", **{name: inputs[name] for name in wanted})

    def _run(self, name: str, **inputs: Integers) -> Logits:
        arrays = {key: np.asarray(array, np.int32) for key, array in inputs.items()}
        outputs = self._interpreter.run(name, arrays, self._states)
        if len(outputs) != 1 or not isinstance(outputs[0], np.ndarray):
            raise IRError(f"function '{name}': expected one output, found {len(outputs)}")
        return outputs[0]

    def close(self) -> None:
        """Nothing is held outside Python's own memory."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
