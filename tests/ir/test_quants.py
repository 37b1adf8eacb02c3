"""Decoding of every GGUF type against bytes and values made by ggml's own code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggufc.ir import QUANTS, IRError, by_ggml_id, decode, quant
from ggufc.ir.quant_grids import GRIDS
from tests.support.random_weights import random_weight_bytes
from tests.support.shared import require_shared

DATA = Path(__file__).parent.parent / "data" / "ir" / "dequant.npz"
WITHOUT_FIXTURE = {"f32", "f64", "i8", "i16", "i32", "i64"}
TYPES = sorted(set(QUANTS) - WITHOUT_FIXTURE)
# ggml's GGML_TYPE_ numbers and sizes, from its public header.
GGML = {
    "f32": (0, 1, 4), "f16": (1, 1, 2), "bf16": (30, 1, 2),
    "q4_0": (2, 32, 18), "q4_1": (3, 32, 20),
    "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q8_0": (8, 32, 34), "q2_k": (10, 256, 84),
    "q3_k": (11, 256, 110), "q4_k": (12, 256, 144), "q5_k": (13, 256, 176), "q6_k": (14, 256, 210),
    "iq2_xxs": (16, 256, 66), "iq2_xs": (17, 256, 74), "iq3_xxs": (18, 256, 98),
    "iq1_s": (19, 256, 50), "iq4_nl": (20, 32, 18), "iq3_s": (21, 256, 110), "iq2_s": (22, 256, 82),
    "iq4_xs": (23, 256, 136), "i8": (24, 1, 1), "i16": (25, 1, 2), "i32": (26, 1, 4),
    "i64": (27, 1, 8), "f64": (28, 1, 8), "iq1_m": (29, 256, 56), "tq1_0": (34, 256, 54),
    "tq2_0": (35, 256, 66), "mxfp4": (39, 32, 17), "nvfp4": (40, 64, 36), "q1_0": (41, 128, 18),
    "q2_0": (42, 64, 18),
}  # fmt: skip


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize("source", ["", "rand_"])
@pytest.mark.parametrize("name", TYPES)
def test_decode_is_bit_exact(name: str, source: str) -> None:
    with np.load(DATA) as data:
        raw, want = data[f"{name}.{source}raw"], data[f"{name}.{source}deq"]
    assert same_bits(decode(name, raw, want.shape), want)
    assert same_bits(decode(name.upper(), raw.tobytes(), want.shape), want)


@pytest.mark.parametrize("name", TYPES)
def test_decode_is_bit_exact_on_all_rows(name: str) -> None:
    path = require_shared(f"models/dequant/{name.upper()}.npz")
    with np.load(path) as data:
        for raw, want in (("raw", "deq"), ("rand_raw", "rand_deq")):
            assert same_bits(decode(name, data[raw], data[want].shape), data[want])


def test_a_changed_byte_changes_the_values() -> None:
    with np.load(DATA) as data:
        for name in TYPES:
            raw, want = data[f"{name}.rand_raw"].copy(), data[f"{name}.rand_deq"]
            raw[0, raw.shape[1] // 2] ^= 0x55
            assert not same_bits(decode(name, raw, want.shape), want), name


def test_plain_numbers() -> None:
    for name, kind in (
        ("f32", "<f4"),
        ("f64", "<f8"),
        ("i8", "i1"),
        ("i16", "<i2"),
        ("i32", "<i4"),
    ):
        values = np.array([[1, -2, 3], [100, 0, -128]], kind)
        assert np.array_equal(decode(name, values.tobytes(), (2, 3)), values.astype(np.float32))


def test_ids_and_sizes() -> None:
    assert set(GGML) == set(QUANTS)
    for name, (ggml_id, block_size, block_bytes) in GGML.items():
        row = by_ggml_id(ggml_id)
        assert (row.name, row.block_size, row.block_bytes) == (name, block_size, block_bytes)
        assert row.nbytes(3 * block_size) == 3 * block_bytes


def test_grids_hold_what_their_codes_can_name() -> None:
    sizes = {name: grid.shape for name, grid in GRIDS.items()}
    assert sizes == {
        "iq2_xxs": (256, 8), "iq2_xs": (512, 8), "iq2_s": (1024, 8),
        "iq3_xxs": (256, 4), "iq3_s": (512, 4), "iq1_s": (2048, 8),
    }  # fmt: skip
    for grid in GRIDS.values():
        assert len(np.unique(grid, axis=0)) == len(grid)


@pytest.mark.parametrize("name", TYPES)
def test_hostile_bytes_decode_without_an_error(name: str) -> None:
    row = quant(name)
    blocks = np.full(3 * row.block_bytes, 0xFF, np.uint8)
    blocks[: row.block_bytes] = 0x7C
    assert decode(name, blocks, (3, row.block_size)).shape == (3, row.block_size)


@pytest.mark.parametrize("name", [row.name for row in QUANTS.values() if row.is_quantized])
def test_random_weights_are_finite_and_not_flat(name: str) -> None:
    raw = random_weight_bytes(np.random.default_rng(1), name, (4, 512))
    values = decode(name, raw, (4, 512))
    assert np.isfinite(values).all()
    assert 0.02 < values.std() < 2


def test_errors_say_what_is_allowed() -> None:
    with pytest.raises(IRError, match=r"unknown ggml type id 4; known: 0 f32, 1 f16, .*42 q2_0"):
        by_ggml_id(4)
    with pytest.raises(IRError, match=r"unknown element type 'q9_9'; known: f32, .*mxfp4"):
        quant("q9_9")
    with pytest.raises(IRError, match="q4_0: 48 elements are not whole blocks of 32"):
        decode("q4_0", b"", (2, 48))
    with pytest.raises(IRError, match=r"q8_0: expected 68 bytes for \[2, 32\], found 67 of uint8"):
        decode("q8_0", bytes(67), (2, 32))
