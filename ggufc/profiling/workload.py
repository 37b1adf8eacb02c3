"""The work that is measured: prefill of random tokens, and decode from a depth on of several
sequences together."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ggufc.runtime.engine import Engine, Floats, Ints
from ggufc.runtime.errors import ContextError
from ggufc.runtime.session import NO_ROWS
from ggufc.runtime.step_inputs import Step

SEED = 0


@dataclass(frozen=True)
class Call:
    """One call of a graph: how many tokens it runs, from which position on, and how many rows of
    logits it makes."""

    graph: str
    tokens: int
    position: int
    rows: int
    run: Callable[[], None]


class Workload:
    """Calls on random tokens, the same for every run. Sequences of a call have one length."""

    def __init__(self, engine: Engine, *, sequences: int = 1) -> None:
        """`sequences` are decoded together. Raises ContextError if the engine has fewer."""
        if not 1 <= sequences <= engine.sequences:
            raise ContextError(
                f"sequences {sequences}: the model was loaded with room for 1 to {engine.sequences}"
            )
        self.engine, self.sequences = engine, sequences
        self._random = np.random.default_rng(SEED)
        self._logits: Floats = np.empty((sequences, engine.vocab_size), np.float32)

    def check(self, tokens: int) -> None:
        """Raises ContextError where so many tokens do not fit."""
        if tokens > self.engine.context:
            raise ContextError(
                f"{tokens} tokens do not fit: the context has {self.engine.context} positions"
            )

    def prefill(self, tokens: int, sequence: int = 0) -> list[Call]:
        """The calls that fill a sequence; the last one makes the logits of its last token."""
        ids, step = self._tokens(tokens), self.engine.manifest.limits.tokens
        return [
            self._prefill_call(ids, start, min(start + step, tokens), sequence)
            for start in range(0, tokens, step)
        ]

    def fill(self, tokens: int) -> None:
        """Bring all sequences to a length."""
        for sequence in range(self.sequences if tokens else 0):
            for call in self.prefill(tokens, sequence):
                call.run()

    def decode(self, steps: int, depth: int) -> Iterator[Call]:
        """A call for each step, each a token of every sequence, from position `depth` on."""
        ids = self._tokens(steps * self.sequences).reshape(steps, self.sequences)
        for step in range(steps):
            yield self._decode_call(ids[step], depth + step)

    def _tokens(self, count: int) -> Ints:
        return self._random.integers(0, self.engine.vocab_size, count, np.int32)

    def _prefill_call(self, ids: Ints, start: int, stop: int, sequence: int) -> Call:
        part, last = ids[start:stop], stop == len(ids)
        rows = np.array([len(part) - 1], np.int32) if last else NO_ROWS

        def run() -> None:
            logits = self._logits[: len(rows)]
            self.engine.prefill(sequence, start, part, rows, logits, len(ids))

        return Call("prefill", len(part), start, len(rows), run)

    def _decode_call(self, ids: Ints, position: int) -> Call:
        steps = [Step(i, position, token, position + 1) for i, token in enumerate(ids.tolist())]

        def run() -> None:
            self.engine.decode(steps, self._logits)

        return Call("decode", self.sequences, position, self.sequences, run)
