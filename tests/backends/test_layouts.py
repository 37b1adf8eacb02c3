"""Packed layouts: bytes as the architecture page places them, values as the decoder has them."""

from __future__ import annotations

import numpy as np
import pytest

from ggufc.backends.llvm import layouts
from ggufc.backends.llvm.layouts import (
    RAW,
    layout_for,
    layout_named,
    layout_reason,
    pack,
    packed_bytes,
    unpack,
)
from ggufc.ir import QUANTS, IRError
from ggufc.ir.quant_codes import GRID_CODES
from ggufc.ir.quant_grids import GRIDS
from tests.support.shared import ROOT, require_shared
from tests.support.weights import FLOATS, QUANTIZED, random_weight

TYPES = QUANTIZED + FLOATS


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("n", [1, 16, 37])
def test_unpacking_gives_the_decoders_values_bit_for_bit(type_name: str, n: int) -> None:
    k = 3 * QUANTS[type_name].block_size
    weight = random_weight(type_name, n, k, np.random.default_rng(n))
    values = unpack(layout_for(type_name), weight.packed, n, k)
    assert np.array_equal(values.view(np.uint32), weight.values.view(np.uint32))


@pytest.mark.parametrize("type_name", TYPES)
def test_slices_of_bounded_size_give_the_same_bytes(
    type_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = random_weight(type_name, 83, 512, np.random.default_rng(0))
    whole = pack(type_name, weight.raw, 83, 512)
    monkeypatch.setattr(layouts, "_SLICE_BYTES", 1)
    assert np.array_equal(pack(type_name, weight.raw, 83, 512), whole)
    assert np.array_equal(unpack(layout_for(type_name), whole, 83, 512), weight.values)


@pytest.mark.parametrize("source", ["", "rand_"])
@pytest.mark.parametrize("type_name", QUANTIZED)
def test_blocks_made_by_ggml_keep_their_values(type_name: str, source: str) -> None:
    with np.load(ROOT / "tests" / "data" / "ir" / "dequant.npz") as data:
        raw, values = data[f"{type_name}.{source}raw"], data[f"{type_name}.{source}deq"]
    assert_unpacks_to(type_name, raw, values)


@pytest.mark.parametrize("type_name", QUANTIZED)
def test_all_blocks_made_by_ggml_keep_their_values(type_name: str) -> None:
    with np.load(require_shared(f"models/dequant/{type_name.upper()}.npz")) as data:
        for source in ("", "rand_"):
            assert_unpacks_to(type_name, data[f"{source}raw"], data[f"{source}deq"])


def assert_unpacks_to(type_name: str, raw: np.ndarray, values: np.ndarray) -> None:
    n, k = values.shape
    found = unpack(layout_for(type_name), pack(type_name, raw, n, k), n, k)
    assert np.array_equal(found.view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize("name", ["iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_s"])
def test_every_vector_of_a_grid_is_packed(name: str) -> None:
    quant, grid = QUANTS[name], GRIDS[name.replace("iq1_m", "iq1_s")]
    weight = random_weight(name, 64, 512 * 256 * 4 // 64, np.random.default_rng(5))
    index = GRID_CODES[name](weight.raw.view(quant.fields)).index
    assert len(np.unique(index)) == len(grid)
    values = unpack(layout_for(name), weight.packed, weight.n, weight.k)
    assert np.array_equal(values.view(np.uint32), weight.values.view(np.uint32))


def test_what_is_repacked_is_said_to_be() -> None:
    assert layout_reason("q2_k") == "own layout"
    assert layout_reason("tq1_0") == "exact repack, ternary digits as 2-bit codes"
    assert layout_for("iq2_xxs") is layout_for("iq2_s")


@pytest.mark.parametrize("type_name", QUANTIZED)
def test_padding_has_scale_zero(type_name: str) -> None:
    layout = layout_for(type_name)
    k = QUANTS[type_name].block_size
    weight = random_weight(type_name, 3, k, np.random.default_rng(1))
    everything = unpack(layout, weight.packed, 16, layout.unit_k)
    assert not everything[3:].any()
    assert not everything[:, k:].any()


@pytest.mark.parametrize(
    ("type_name", "bytes_of_unit", "unit_k"),
    [("q4_0", 576, 64), ("q5_1", 768, 64), ("q4_k", 2368, 256), ("f32", 64, 1), ("bf16", 64, 2)],
)
def test_packed_bytes_pad_rows_to_16_and_columns_to_a_unit(
    type_name: str, bytes_of_unit: int, unit_k: int
) -> None:
    layout = layout_for(type_name)
    assert packed_bytes(layout, 17, unit_k + 1) == 2 * 2 * bytes_of_unit
    assert packed_bytes(layout, 16, unit_k) == bytes_of_unit
    assert packed_bytes(RAW, 3, 5) == 60


def test_q4_0_places_nibbles_and_scales() -> None:
    weight = random_weight("q4_0", 16, 64, np.random.default_rng(2))
    blocks = weight.raw.view(QUANTS["q4_0"].fields).reshape(16, 2)
    for row, k in ((0, 0), (5, 3), (5, 17), (15, 63), (7, 42)):
        b, within = divmod(k, 32)
        high, at = divmod(within, 16)
        byte = weight.packed[256 * b + 64 * (at // 4) + 4 * row + at % 4]
        file_byte = blocks[row, b]["qs"][at]
        assert byte >> (4 * high) & 15 == file_byte >> (4 * high) & 15
        scale = weight.packed[512 + 32 * b + 2 * row :][:2].view("<f2")[0]
        assert scale == blocks[row, b]["d"]


def test_q8_0_stores_codes_with_their_sign_bit_flipped() -> None:
    weight = random_weight("q8_0", 16, 64, np.random.default_rng(3))
    blocks = weight.raw.view(QUANTS["q8_0"].fields).reshape(16, 2)
    for row, k in ((0, 0), (3, 31), (9, 32), (15, 63)):
        b, within = divmod(k, 32)
        byte = weight.packed[512 * b + 64 * (within // 4) + 4 * row + within % 4]
        assert int(byte) - 128 == blocks[row, b]["qs"][within]


def test_q6_k_places_low_nibbles_high_bits_and_scales() -> None:
    weight = random_weight("q6_k", 16, 256, np.random.default_rng(4))
    d = weight.packed[:32].view("<f2").astype(np.float32)
    for row, t, s, i, j in ((0, 0, 0, 0, 0), (6, 1, 1, 2, 3), (15, 3, 3, 3, 1), (9, 2, 2, 0, 2)):
        low = weight.packed[320 + 512 * t + 64 * (4 * (s % 2) + i) + 4 * row + j]
        high = weight.packed[2368 + 256 * t + 64 * i + 4 * row + j]
        code = (low >> (4 * (s // 2)) & 15) | (high >> (2 * s) & 3) << 4
        scale = weight.packed[64 + 16 * (4 * t + s) + row].view(np.int8)
        value = d[row] * np.float32(scale) * np.float32(int(code) - 32)
        assert value == weight.values[row, 64 * t + 16 * s + 4 * i + j]


def test_what_has_no_layout_is_refused_with_the_types_that_have_one() -> None:
    with pytest.raises(IRError, match=r"'i8' has no packed layout.*q4_0, .*bf16"):
        layout_for("i8")
    with pytest.raises(IRError, match=r"'r16.q9' is unknown; known: r16.q4_0, .*raw"):
        layout_named("r16.q9")


def test_a_matrix_of_the_wrong_size_is_refused_with_both_sizes() -> None:
    with pytest.raises(IRError, match=r"q8_0 matrix \[2, 64\]: found 135 bytes, expected 136"):
        pack("q8_0", np.zeros(135, np.uint8), 2, 64)
    with pytest.raises(IRError, match=r"r16.q8_0, matrix \[2, 64\]: found 7 bytes, expected 1088"):
        unpack(layout_for("q8_0"), np.zeros(7, np.uint8), 2, 64)
