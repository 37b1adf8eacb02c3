"""The planned layout of caches, address by address as docs/architecture.md writes it."""

from __future__ import annotations

import numpy as np
import pytest

from ggufc.backends.llvm.states import (
    CacheLayout,
    Role,
    cache_layout,
    pack_cache,
    pack_state,
    plain_layout,
    state_bytes,
    unpack_cache,
    unpack_state,
)
from ggufc.ir import IRError, dtype
from tests.support.signatures import tensor

SEQUENCES, HEADS, CONTEXT = 2, 3, 64


def address(layout: CacheLayout, sequence: int, position: int, head: int, d: int) -> int:
    """Index in `[S][H][C/16][Dp/P][16][P]` (keys) or `[S][H][C/32][Dp/16][32/P][16][P]`."""
    pair, padded = layout.pair, layout.padded_dim
    block = 16 if layout.role == "keys" else 32
    outer = ((sequence * HEADS + head) * (CONTEXT // block) + position // block) * block * padded
    if layout.role == "keys":
        return outer + (d // pair * 16 + position % 16) * pair + d % pair
    vector = d // 16 * (32 // pair) + position % 32 // pair
    return outer + (vector * 16 + d % 16) * pair + position % pair


@pytest.mark.parametrize("role", ["keys", "values"])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("dim", [64, 24, 80, 7])
def test_every_element_lies_where_the_contract_says(role: Role, element: str, dim: int) -> None:
    layout = cache_layout(role, tensor(f"{element}[S, C, {HEADS}, {dim}]"))
    shape = (SEQUENCES, CONTEXT, HEADS, dim)
    rows = np.arange(np.prod(shape)).reshape(shape).astype(np.float64)
    memory = pack_cache(layout, rows)
    assert memory.size * layout.element_bytes == SEQUENCES * CONTEXT * layout.position_bytes
    for sequence, position, head, d in np.random.default_rng(0).integers(0, shape, (500, 4)):
        at = address(layout, sequence, position, head, d)
        assert memory[at] == rows[sequence, position, head, d]
    assert (unpack_cache(layout, memory, SEQUENCES, CONTEXT) == rows).all()


def test_sizes() -> None:
    keys = CacheLayout("keys", dtype("bf16"), 3, 72)
    values = CacheLayout("values", dtype("f32"), 3, 72)
    assert (keys.padded_dim, keys.position_bytes) == (96, 3 * 96 * 2)
    assert (values.padded_dim, values.position_bytes) == (80, 3 * 80 * 4)


def test_other_elements_are_refused() -> None:
    with pytest.raises(IRError, match=r"i8\[S<=8, C<=8192, 3, 64\].*f32, f16 or bf16"):
        cache_layout("keys", tensor("i8[S, C, 3, 64]"))


def test_states_without_positions() -> None:
    layout = plain_layout(tensor("f32[S, 3, 20]"))
    assert (layout.position_bytes, layout.sequence_bytes) == (0, 240)
    assert state_bytes(layout, 2, 128) == 480
    values = np.arange(2 * 3 * 20, dtype=np.float32).reshape(2, 3, 20)
    np.testing.assert_array_equal(pack_state(layout, values), values.reshape(-1))
    np.testing.assert_array_equal(unpack_state(layout, values.reshape(-1), 2, 128), values)
    for bad in ("bf16[S, 3, 20]", "f32[S, C, 20]"):
        with pytest.raises(IRError, match="expected elements of f32 and no positions"):
            plain_layout(tensor(bad))
