"""The states of a model, sequence by sequence: keys and values of attention, recurrent states and
windows of convolutions under one interface.

A state with positions is read and written as rows `[heads, positions, width]`, whatever its place
in memory (docs/architecture.md, States), one without as it is.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from ggufc.runtime.bundle import CONTEXT_UNIT, Manifest, State
from ggufc.runtime.errors import BundleError, MachineError
from ggufc.runtime.memory import Bytes, address, allocate

Array = npt.NDArray[np.unsignedinteger]
ELEMENTS: dict[str, np.dtype[np.unsignedinteger]] = {
    "bf16": np.dtype(np.uint16),
    "f16": np.dtype(np.uint16),
    "f32": np.dtype(np.uint32),
}
# Of caches, positions that lie together, and the width of a vector in elements of 4 bytes.
BLOCK = {"keys": 16, "values": 32}
LANES = 16


class States:
    """The states of `sequences` sequences of `context` positions (a multiple of 64)."""

    def __init__(self, manifest: Manifest, sequences: int, context: int) -> None:
        """Reserve the memory, which is zero and not touched. Raises MachineError."""
        self.context = context
        self._memory = allocate_states(manifest, sequences, context)
        self._states = [
            accessor(state, memory, sequences)
            for state, memory in zip(manifest.states, self._memory, strict=True)
        ]
        self.table = np.array([address(m) for m in self._memory], np.uint64)

    def sizes(self, positions: int) -> list[int]:
        """Bytes of each state of a sequence, of which `positions` positions are used."""
        return [state.size(positions) for state in self._states]

    def read(self, sequence: int, positions: int) -> Iterator[Bytes]:
        """A copy of each state of a sequence, up to `positions`."""
        return (state.read(sequence, positions) for state in self._states)

    def write(self, sequence: int, positions: int, parts: Iterable[Bytes]) -> None:
        """Set each state of a sequence to what `read` gave."""
        for state, part in zip(self._states, parts, strict=True):
            state.write(sequence, positions, part)

    def snapshot(self, sequence: int) -> list[Bytes]:
        """A copy of the states of a sequence that every token changes."""
        return [state.read(sequence, 0) for state in self._states if isinstance(state, Whole)]

    def put_back(self, sequence: int, snapshot: Iterable[Bytes]) -> None:
        """Undo what tokens did since a snapshot."""
        wholes = [state for state in self._states if isinstance(state, Whole)]
        for state, part in zip(wholes, snapshot, strict=True):
            state.write(sequence, 0, part)

    def copy_rows(self, source: int, target: int, positions: int) -> None:
        """Give `target` the first `positions` rows of another sequence's caches; the states that
        every token changes stay."""
        for state in self._states:
            if isinstance(state, Cache):
                state.copy(source, target, positions)


class Whole:
    """A state that every token of a sequence changes."""

    def __init__(self, memory: Bytes, sequences: int) -> None:
        self._parts: Bytes = memory.reshape(sequences, -1)
        self._bytes = memory.size // sequences

    def size(self, _positions: int) -> int:
        """Bytes of one sequence."""
        return self._bytes

    def read(self, sequence: int, _positions: int) -> Bytes:
        """A copy of one sequence's part."""
        return np.array(self._parts[sequence])

    def write(self, sequence: int, _positions: int, part: Bytes) -> None:
        """Set one sequence's part."""
        self._parts[sequence] = part


class Cache:
    """Keys or values: rows of each position and head, moved in memory to blocks of positions."""

    def __init__(self, state: State, memory: Bytes, sequences: int) -> None:
        element = ELEMENTS[state.dtype]
        self._row_bytes = state.position_bytes
        self._heads, self._block = state.heads, BLOCK[state.role]
        self._width = state.position_bytes // (state.heads * element.itemsize)
        pair = 4 // element.itemsize
        inner: tuple[int, ...]
        self._order: tuple[int, ...]
        self._back: tuple[int, ...]
        if state.role == "keys":
            inner = (self._width // pair, self._block, pair)
            self._order, self._back = (0, 1, 3, 2, 4), (0, 1, 3, 2, 4)
        else:
            inner = (self._width // LANES, self._block // pair, LANES, pair)
            self._order, self._back = (0, 1, 3, 5, 2, 4), (0, 1, 4, 2, 5, 3)
        self._blocks = memory.view(element).reshape(sequences, self._heads, -1, *inner)

    def size(self, positions: int) -> int:
        """Bytes of the rows of one sequence."""
        return positions * self._row_bytes

    def _used(self, sequence: int, positions: int) -> Array:
        return self._blocks[sequence, :, : -(-positions // self._block)]

    def read(self, sequence: int, positions: int) -> Bytes:
        """The rows [heads, positions, width] of one sequence, as bytes."""
        used = self._used(sequence, positions).transpose(self._order)
        rows = used.reshape(self._heads, -1, self._width)[:, :positions]
        return np.ascontiguousarray(rows).reshape(-1).view(np.uint8)

    def write(self, sequence: int, positions: int, part: Bytes) -> None:
        """Set the rows of one sequence; what else is in their last block becomes zero."""
        used = self._used(sequence, positions)
        moved = tuple(used.shape[axis] for axis in self._order)
        rows = np.zeros((self._heads, used.shape[1] * self._block, self._width), used.dtype)
        rows[:, :positions] = part.view(used.dtype).reshape(self._heads, positions, self._width)
        used[...] = rows.reshape(moved).transpose(self._back)

    def copy(self, source: int, target: int, positions: int) -> None:
        """Copy rows from one sequence to another."""
        self._used(target, positions)[...] = self._used(source, positions)


def accessor(state: State, memory: Bytes, sequences: int) -> Whole | Cache:
    """What reads and writes one state. Raises BundleError for one of an unknown kind."""
    if state.role == "whole":
        return Whole(memory, sequences)
    if state.role not in BLOCK or state.dtype not in ELEMENTS or state.heads < 1:
        raise BundleError(
            f"state {state.name}: {state.heads} heads of {state.role!r} in {state.dtype}; this "
            f"ggufc knows {', '.join(BLOCK)} in {', '.join(ELEMENTS)}, and whole states"
        )
    return Cache(state, memory, sequences)


def allocate_states(manifest: Manifest, sequences: int, context: int) -> list[Bytes]:
    """The states, zero, in the order of the manifest. Raises MachineError."""
    sizes = [
        sequences * (context * state.position_bytes + state.sequence_bytes)
        for state in manifest.states
    ]
    try:
        return [allocate(size) for size in sizes]
    except MachineError:
        raise MachineError(
            f"cannot reserve {sum(sizes)} bytes for the KV cache of {sequences} sequences of "
            f"{context} positions: choose a smaller context or fewer sequences"
        ) from None


def padded_context(context: int) -> int:
    """The positions that caches have room for."""
    return -(-context // CONTEXT_UNIT) * CONTEXT_UNIT
