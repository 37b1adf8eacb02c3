"""Sessions: sequences of tokens whose states the engine holds."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ggufc.runtime.arguments import check_integer, path_of
from ggufc.runtime.engine import Engine, Floats, Ints, as_ids
from ggufc.runtime.errors import ArgumentError, ContextError
from ggufc.runtime.memory import Bytes
from ggufc.runtime.step_inputs import Step

if TYPE_CHECKING:
    from ggufc.runtime.session_file import SessionReader

NO_ROWS: Ints = np.empty(0, np.int32)
# How many earlier recurrent states a sequence keeps: those after its last prompts.
CHECKPOINTS = 2


@dataclass(frozen=True)
class Checkpoint:
    """The states that every token changes, as they were after the first `position` tokens."""

    position: int
    states: list[Bytes]


class Session:
    """One sequence: the tokens whose keys and values the cache holds, and their number, the
    position.

    Not safe for use from several threads at once; different sessions of one engine are.
    """

    def __init__(self, engine: Engine, index: int) -> None:
        self.engine = engine
        self.index = index
        self.ids: list[int] = []
        self.prefilled = 0
        """How many of the first tokens `prefill` ran: their states do not depend on what was
        generated here before."""
        self._checkpoints: list[Checkpoint] = []
        self._is_long = False
        self.expected = 0  # how long the sequence is known to become
        self._logits = np.empty((1, engine.vocab_size), np.float32)
        self._row: Floats = self._logits[0]

    @property
    def position(self) -> int:
        """The number of tokens in the cache."""
        return len(self.ids)

    def reusable(self, ids: Sequence[int]) -> int:
        """How many tokens of the cache `ids` begins with, at most all but its last one, whose
        logits have to be computed. A recurrent state cannot be taken back to any earlier token:
        it is gone on with as it is, or as it was at a checkpoint, or not at all."""
        return self._reachable(common_prefix(self.ids, ids[:-1]))

    def _reachable(self, count: int) -> int:
        """The most tokens, up to `count`, after which the states are known."""
        if count == self.position or self.engine.can_rewind:
            return count
        return max((c.position for c in self._checkpoints if c.position <= count), default=0)

    def reuse(self, ids: Sequence[int], *, prefilled_only: bool = False) -> int:
        """Keep of the cache what is `reusable` for `ids`, and return how many tokens that is.
        With `prefilled_only` keep no token that was generated, so that the result has the bits
        of a run from the beginning whatever the graphs compute in."""
        count = self.reusable(ids)
        if prefilled_only:
            count = self._reachable(min(count, self.prefilled))
        self._go_back(count)
        return self.position

    def _go_back(self, position: int) -> None:
        """Forget all tokens from `position` on, which `_reachable` gave."""
        kept = [c for c in self._checkpoints if c.position <= position]
        if 0 < position < self.position and not self.engine.can_rewind:
            self.engine.states.put_back(self.index, kept[-1].states)
        self.ids, self._checkpoints = self.ids[:position], kept
        self.prefilled = min(self.prefilled, position)

    def checkpoint(self) -> None:
        """Remember the recurrent state, so that later prompts which begin with these tokens and
        go on otherwise can start from here; without one there is nothing to do."""
        if not self.engine.can_rewind and all(
            c.position < self.position for c in self._checkpoints
        ):
            states = self.engine.states.snapshot(self.index)
            kept = self._checkpoints[1 - CHECKPOINTS :]
            self._checkpoints = [*kept, Checkpoint(self.position, states)]

    def clear(self) -> None:
        """Forget all tokens."""
        self._go_back(0)

    def copy_from(self, other: "Session", count: int) -> None:
        """Begin with the first `count` tokens of another sequence, which only attention has to
        have seen. Nothing is copied that depends on how long the other one became."""
        if self.engine.can_rewind and not self.engine.short_context:
            count = min(count, other.position)
            self.engine.states.copy_rows(other.index, self.index, count)
            self.ids, self.prefilled = other.ids[:count], min(count, other.prefilled)

    def save(self, path: str | os.PathLike[str], *, note: Any = None) -> None:
        """Write the session to a file that `restore` reads, whole or not at all. `note` is JSON
        that belongs to it. Raises SessionFileError, OSError."""
        from ggufc.runtime.session_file import header_for, note_bytes, write_session

        target = path_of("path", path)
        extra, ids = note_bytes(note), np.array(self.ids, np.dtype("<i4"))
        header = header_for(self.engine.manifest, self.position, self._is_long, len(extra))

        def parts() -> Iterator[Bytes]:
            yield ids.view(np.uint8)
            yield from self.engine.states.read(self.index, self.position)
            yield extra

        write_session(target, header, parts())

    def restore(self, path: str | os.PathLike[str]) -> Any:
        """Become the session that was saved in a file, and return its note. Raises
        SessionFileError, after which the session is empty, and OSError."""
        from ggufc.runtime.session_file import SessionReader

        source = path_of("path", path)
        self.clear()
        with open(source, "rb", buffering=0, opener=without_waiting) as file:
            return self._restored(SessionReader(source, file))

    def _restored(self, reader: "SessionReader") -> Any:
        from ggufc.runtime.session_file import header_for, note_of

        reader.check_counts(self.engine.context)
        states, found = self.engine.states, reader.header
        sizes = states.sizes(found.positions)
        own = header_for(self.engine.manifest, found.positions, found.long, found.note)
        reader.check(own, self.engine.context, sizes)
        ids = reader.part(4 * found.positions).view(np.dtype("<i4"))
        states.write(self.index, found.positions, map(reader.part, sizes))
        note = note_of(reader.part(found.note), reader)
        reader.finish()
        try:
            self.ids = as_ids(ids, self.engine.vocab_size).tolist()
        except ArgumentError as error:
            raise reader.error(str(error)) from None
        self._is_long = found.long
        return note

    @contextmanager
    def appending(self, ids: Sequence[int]) -> Iterator[None]:
        """Append `ids`, which the block runs. Where it fails, or the user ends it, a recurrent
        state may be ahead of the tokens: then all are forgotten."""
        try:
            yield
            self.ids.extend(ids)
        except BaseException:
            self.forget_what_failed()
            raise

    def forget_what_failed(self) -> None:
        """After a call that did not end as it should: all tokens, where the state may be ahead of
        them."""
        if not self.engine.can_rewind:
            self.clear()

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
        decode_together([self], [token], self._logits)
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
        check_integer("chunk", chunk, 1, maximum)
        return chunk

    def make_room(self) -> int:
        """Prepare for one more token by the decode graph; the length that the sequence is going to
        have. Raises ContextError."""
        self.check_room(1)
        return self._grow(1)

    def _grow(self, count: int) -> int:
        """The length that the sequence is going to have with `count` more tokens.

        Where the model rotates long sequences otherwise, and this is becoming one or ceases to be
        one, what the cache holds is computed again."""
        length = max(self.position + count, self.expected)
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
        is_first = self.prefilled == self.position
        with self.appending(part.tolist()):
            self.engine.prefill(self.index, self.position, part, rows, logits, length)
        if is_first:
            self.prefilled = self.position


def decode_together(sessions: Sequence[Session], tokens: Sequence[int], logits: Floats) -> None:
    """Append one token to each of several sessions of an engine, by one call that reads the
    weights once; fills `logits` [len(sessions), vocab]. No bit of a row depends on the others."""
    if not sessions:
        raise ArgumentError("no sessions: there is nothing to run")
    engine = sessions[0].engine
    if not all(type(token) is int and 0 <= token < engine.vocab_size for token in tokens):
        tokens = as_ids(tokens, engine.vocab_size).tolist()
    steps = []
    for session, token in zip(sessions, tokens, strict=True):
        length = session.make_room()
        steps.append(Step(session.index, session.position, token, length))
    try:
        engine.decode(steps, logits)
        for session, token in zip(sessions, tokens, strict=True):
            session.ids.append(token)
    except BaseException:
        for session in sessions:
            session.forget_what_failed()
        raise


def stepwise(session: Session, ids: Sequence[int], all: bool) -> Floats:
    """Logits by the decode graph, one token at a time, of a sequence known from the start."""
    ids = as_ids(ids, session.engine.vocab_size).tolist()
    if not ids:
        raise ArgumentError("no tokens: there is nothing to run")
    session.check_room(len(ids))
    session.expected = session.position + len(ids)
    try:
        rows = [session.decode(token).copy() if all else session.decode(token) for token in ids]
    finally:
        session.expected = 0
    return np.stack(rows) if all else rows[-1].copy()


def without_waiting(path: str, flags: int) -> int:
    """Open a file, also one such as a pipe that is only going to be refused."""
    return os.open(path, flags | os.O_NONBLOCK)


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the longest common prefix of two lists."""
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter)
