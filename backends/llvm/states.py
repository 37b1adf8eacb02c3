"""How states lie in memory: sizes, addresses, and the same in NumPy for tests and inspection.

States without positions lie as the IR has them, row by row, sequence after sequence. For KV caches:

A cache is `[S, C, H, D]` in the IR. In memory keys are `[S][H][C/16][Dp/P][16][P]` and values
`[S][H][C/32][Dp/16][32/P][16][P]`, with P = 2 for 16-bit elements and 1 for float32, and D rounded
up to Dp, a multiple of 32 (keys) or 16 (values). One 64-byte vector thus holds P elements of 16
keys, or P positions of 16 elements of values, and attention never needs a sum across lanes.

Of what pads a row only the last half of a pair and, in bf16, all of a key is written, as zero:
what else no token has written may be NaN, and attention lets none of it reach a result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm.kernel_builder import Val
from ggufc.ir import DType, IRError, Module, State, TensorType, max_dim
from ggufc.ir.types import round_up

Role = Literal["keys", "values"]

LANES = 16
VECTOR_BYTES = 64
CONTEXT_MULTIPLE = 64
_BLOCK: dict[Role, int] = {"keys": 16, "values": 32}
_PADDING: dict[Role, int] = {"keys": 32, "values": 16}
_ROLES: dict[str, Role] = {"k_cache": "keys", "v_cache": "values"}


@dataclass(frozen=True)
class CacheLayout:
    """Memory of one cache of `n_heads` rows of `dim` elements a position."""

    role: Role
    element: DType
    n_heads: int
    dim: int

    @property
    def element_bytes(self) -> int:
        """Bytes of an element: 2 or 4."""
        return self.element.block_bytes

    @property
    def pair(self) -> int:
        """P: elements of one lane of a vector."""
        return 4 // self.element_bytes

    @property
    def padded_dim(self) -> int:
        """Elements of a row in memory."""
        return round_up(self.dim, _PADDING[self.role])

    @property
    def block(self) -> int:
        """Positions that are stored together: 16 for keys, 32 for values."""
        return _BLOCK[self.role]

    @property
    def row_bytes(self) -> int:
        """Bytes of one position of one head."""
        return self.padded_dim * self.element_bytes

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of one head."""
        return self.block * self.row_bytes

    @property
    def chunk_bytes(self) -> int:
        """Bytes of 16 elements of a block of values."""
        return self.block * LANES * self.element_bytes

    @property
    def position_bytes(self) -> int:
        """Bytes of one position of all heads: a state takes S * C * position_bytes."""
        return self.n_heads * self.row_bytes

    @property
    def sequence_bytes(self) -> int:
        """Bytes of a sequence that do not belong to a position: none."""
        return 0

    def head(self, base: Val, sequence: Val, head: Val, context: Val) -> Val:
        """Pointer to position 0 of one head of one sequence; arguments are i64."""
        return base + (sequence * self.n_heads + head) * context * self.row_bytes

    def element_offset(self, position: Val, element: int) -> Val:
        """Bytes from a head's position 0 to one element of position `position` (i64)."""
        within = position % self.block
        block = position // self.block * self.block_bytes
        if self.role == "keys":
            step, odd = divmod(element, self.pair)
            constant = step * VECTOR_BYTES + odd * self.element_bytes
            return block + within * (self.pair * self.element_bytes) + constant
        chunk, lane = divmod(element, LANES)
        odd_bytes = within % self.pair * self.element_bytes
        vector = within // self.pair * VECTOR_BYTES
        constant = chunk * self.chunk_bytes + lane * self.pair * self.element_bytes
        return block + vector + odd_bytes + constant


@dataclass(frozen=True)
class PlainLayout:
    """Memory of a state without positions: the elements of a sequence as the IR has them."""

    element: DType
    shape: tuple[int, ...]

    @property
    def role(self) -> Literal["whole"]:
        """What distinguishes it from keys and values."""
        return "whole"

    @property
    def n_heads(self) -> int:
        """Rows of a position: none."""
        return 0

    @property
    def position_bytes(self) -> int:
        """Bytes of one position: none."""
        return 0

    @property
    def sequence_bytes(self) -> int:
        """Bytes of one sequence: a state takes S * sequence_bytes."""
        return math.prod(self.shape) * self.element.block_bytes


StateLayout = CacheLayout | PlainLayout


def state_bytes(layout: StateLayout, sequences: int, context: int) -> int:
    """Bytes of a state of `sequences` sequences of `context` positions."""
    return sequences * (layout.sequence_bytes + context * layout.position_bytes)


def state_limits(module: Module) -> dict[str, int]:
    """The compiled maxima of the sizes that states depend on: S sequences, C positions."""
    return {s.name: s.max for state in module.states.values() for s in state.type.symbols()}


def plain_layout(state: TensorType) -> PlainLayout:
    """The layout of a state `[S, ...]` of f32 without positions."""
    if state.dtype.name != "f32" or any(symbol.name == "C" for symbol in state.symbols()):
        raise IRError(f"state {state}: expected elements of f32 and no positions")
    return PlainLayout(state.dtype, state.max_shape[1:])


def cache_layout(role: Role, cache: TensorType) -> CacheLayout:
    """The layout of a cache `[S, C, H, D]` of f32, f16 or bf16."""
    _, _, heads, dim = cache.shape
    if cache.dtype.name not in ("f32", "f16", "bf16"):
        raise IRError(f"cache {cache}: expected elements of f32, f16 or bf16")
    return CacheLayout(role, cache.dtype, max_dim(heads), max_dim(dim))


def state_layouts(module: Module) -> dict[str, StateLayout]:
    """The layout of every state that an op of the module uses, by the state's name."""
    layouts: dict[str, StateLayout] = {}
    for function in module.functions.values():
        for op in function.ops:
            for name, operand in op.operands.items():
                if isinstance(operand, State):
                    _add_layout(layouts, operand, _ROLES.get(name))
    return layouts


def _add_layout(layouts: dict[str, StateLayout], state: State, role: Role | None) -> None:
    layout = plain_layout(state.type) if role is None else cache_layout(role, state.type)
    if layouts.setdefault(state.name, layout) != layout:
        raise IRError(f"state ${state.name} is used in two ways, for keys and for values perhaps")


def pack_state(layout: StateLayout, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Planned memory, flat, of a state as the IR has it."""
    if isinstance(layout, CacheLayout):
        return pack_cache(layout, values)
    return np.ascontiguousarray(values).reshape(-1)


def unpack_state(
    layout: StateLayout, memory: npt.NDArray[Any], sequences: int, context: int
) -> npt.NDArray[Any]:
    """The state as the IR has it, a copy, of planned memory."""
    if isinstance(layout, CacheLayout):
        return unpack_cache(layout, memory, sequences, context)
    return memory.reshape(sequences, *layout.shape).copy()


def pack_cache(layout: CacheLayout, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Planned memory, flat, of a cache given as `[S, C, H, D]`; padding is zero."""
    sequences, context, heads, dim = rows.shape
    padded = np.zeros((sequences, context, heads, layout.padded_dim), rows.dtype)
    padded[..., :dim] = rows
    grid = padded.transpose(0, 2, 1, 3).reshape(_grid(layout, sequences, context))
    return np.ascontiguousarray(grid.transpose(_order(layout))).reshape(-1)


def unpack_cache(
    layout: CacheLayout, memory: npt.NDArray[Any], sequences: int, context: int
) -> npt.NDArray[Any]:
    """The cache `[S, C, H, D]` of planned memory, padding removed."""
    grid, order = _grid(layout, sequences, context), _order(layout)
    planned = memory.reshape([grid[axis] for axis in order])
    rows = planned.transpose(np.argsort(order)).reshape(
        sequences, layout.n_heads, context, layout.padded_dim
    )
    return np.ascontiguousarray(rows.transpose(0, 2, 1, 3)[..., : layout.dim])


def _grid(layout: CacheLayout, sequences: int, context: int) -> tuple[int, ...]:
    """[S, H, C, Dp] with positions and elements cut into the factors that the layout moves."""
    head = (sequences, layout.n_heads, context // layout.block)
    if layout.role == "keys":
        return (*head, layout.block, layout.padded_dim // layout.pair, layout.pair)
    return (*head, layout.block // layout.pair, layout.pair, layout.padded_dim // LANES, LANES)


def _order(layout: CacheLayout) -> tuple[int, ...]:
    """Axes of `_grid` in the order in which memory has them."""
    return (0, 1, 2, 4, 3, 5) if layout.role == "keys" else (0, 1, 2, 5, 3, 6, 4)
