"""Sessions: sequences of tokens in the KV cache, and the pool that hands them out."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ggufc.runtime.engine import Engine, Floats, Ints, as_ids
from ggufc.runtime.errors import ArgumentError, ContextError

NO_ROWS: Ints = np.empty(0, np.int32)


class Session:
    """One sequence: the tokens whose keys and values the cache holds, and their number, the
    position.

    Not safe for use from several threads at once; different sessions of one engine are.
    """

    def __init__(self, engine: Engine, index: int) -> None:
        self.engine = engine
        self.index = index
        self.ids: list[int] = []
        self._is_long = False
        self._logits = np.empty((1, engine.vocab_size), np.float32)
        self._row: Floats = self._logits[0]

    @property
    def position(self) -> int:
        """The number of tokens in the cache."""
        return len(self.ids)

    def reusable(self, ids: Sequence[int]) -> int:
        """How many tokens of the cache `ids` begins with, at most all but its last one, whose
        logits have to be computed. A recurrent state, which cannot be taken back to an earlier
        token, has to be gone on with as it is, or not at all."""
        count = common_prefix(self.ids, ids[:-1])
        return count if count == self.position or self.engine.can_rewind else 0

    def reuse(self, ids: Sequence[int]) -> int:
        """Keep of the cache what is `reusable` for `ids`, and return how many tokens that is."""
        self.ids = self.ids[: self.reusable(ids)]
        return self.position

    def clear(self) -> None:
        """Forget all tokens."""
        self.ids = []

    @contextmanager
    def _appending(self, ids: Sequence[int]) -> Iterator[None]:
        """Append `ids`, which the block runs. Where it fails, or the user ends it, a recurrent
        state may be ahead of the tokens: then all are forgotten."""
        try:
            yield
            self.ids.extend(ids)
        except BaseException:
            if not self.engine.can_rewind:
                self.clear()
            raise

    def check_room(self, count: int) -> None:
        """Raise ContextError unless `count` more tokens fit."""
        total = self.position + count
        if total > self.engine.context:
            raise ContextError(
                f"{total} tokens do not fit a context of {self.engine.context}; "
                f"the bundle was compiled for at most {self.engine.manifest.limits.context}"
            )

    def prefill(self, ids: Sequence[int] | Ints, *, chunk: int | None = None) -> Floats:
        """Append `ids` and return the logits [vocab] after the last one, valid until the next call.

        `chunk` is the number of tokens run at once, at most (and by default) the compiled maximum.
        Nothing is run if the tokens do not fit."""
        tokens = self._checked(ids)
        step = self._chunk(chunk, self.engine.manifest.limits.tokens)
        length = self._grow(len(tokens))
        for start in range(0, len(tokens), step):
            part = tokens[start : start + step]
            last = start + step >= len(tokens)
            rows = np.array([len(part) - 1], np.int32) if last else NO_ROWS
            self._extend(part, rows, self._logits, length)
        return self._row

    def prefill_all(self, ids: Sequence[int] | Ints, *, chunk: int | None = None) -> Floats:
        """Append `ids` and return a new array of the logits after each: [len(ids), vocab]."""
        tokens = self._checked(ids)
        limits = self.engine.manifest.limits
        step = self._chunk(chunk, min(limits.tokens, limits.rows))
        logits = np.empty((len(tokens), self.engine.vocab_size), np.float32)
        length = self._grow(len(tokens))
        for start in range(0, len(tokens), step):
            part = tokens[start : start + step]
            rows = np.arange(len(part), dtype=np.int32)
            self._extend(part, rows, logits[start : start + len(part)], length)
        return logits

    def decode(self, token: int) -> Floats:
        """Append one token by the decode graph; returns the logits [vocab], valid until the next
        call."""
        ids = self._checked([token])
        self._grow(1)
        at = np.array([self.position], np.int32)
        with self._appending([token]):
            self.engine.decode(np.array([self.index], np.int32), at, ids, self._logits)
        return self._row

    def _checked(self, ids: Sequence[int] | Ints) -> Ints:
        tokens = as_ids(ids, self.engine.vocab_size)
        if not len(tokens):
            raise ArgumentError("no tokens: there is nothing to run")
        self.check_room(len(tokens))
        return tokens

    def _chunk(self, chunk: int | None, maximum: int) -> int:
        if chunk is None:
            return maximum
        if not 1 <= chunk <= maximum:
            raise ArgumentError(f"chunk {chunk}: allowed are 1 to {maximum}")
        return chunk

    def _grow(self, count: int) -> int:
        """The length that the sequence is going to have with `count` more tokens.

        Where the model rotates long sequences otherwise, and this is becoming one or ceases to be
        one, what the cache holds is computed again."""
        length = self.position + count
        is_long = 0 < self.engine.short_context < length
        if is_long != self._is_long:
            self._is_long = is_long
            self._compute_again(length)
        return length

    def _compute_again(self, length: int) -> None:
        tokens, step = np.array(self.ids, np.int32), self.engine.manifest.limits.tokens
        self.clear()
        for start in range(0, len(tokens), step):
            self._extend(tokens[start : start + step], NO_ROWS, self._logits, length)

    def _extend(self, part: Ints, rows: Ints, logits: Floats, length: int) -> None:
        with self._appending(part.tolist()):
            self.engine.prefill(self.index, self.position, part, rows, logits, length)


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the longest common prefix of two lists."""
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter)


class SessionPool:
    """All sequences of an engine. A borrower gets the idle one whose cache it can reuse most of,
    and waits while none is idle. A forked child starts with all of them idle."""

    def __init__(self, engine: Engine) -> None:
        self._idle = [Session(engine, index) for index in range(engine.sequences)]
        self._all = list(self._idle)
        self._changed = threading.Condition()
        self._pid = os.getpid()

    @contextmanager
    def borrow(self, ids: Sequence[int]) -> Iterator[Session]:
        """A session for the prompt `ids`, given back at the end of the `with` block."""
        session = self._take(ids)
        try:
            yield session
        finally:
            with self._changed:
                self._idle.append(session)
                self._changed.notify()

    def _take(self, ids: Sequence[int]) -> Session:
        self._after_fork()
        with self._changed:
            while not self._idle:
                self._changed.wait()
            best = max(self._idle, key=lambda s: (s.reusable(ids), -s.position))
            self._idle.remove(best)
            return best

    def _after_fork(self) -> None:
        if self._pid == os.getpid():
            return
        for session in self._all:
            if session not in self._idle:
                session.clear()
        self._idle, self._changed, self._pid = list(self._all), threading.Condition(), os.getpid()
