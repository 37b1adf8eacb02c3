"""Dimensions, element types and sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ggufc.ir import (
    BF16,
    F32,
    I32,
    Q8A,
    IRError,
    Symbol,
    TensorType,
    bf16_to_f32,
    dtype,
    f32_to_bf16,
    max_dim,
    q8a_row_stride,
    quantize_q8a,
    round_up,
)


def test_symbols_are_equal_by_name_and_bound() -> None:
    assert Symbol("T", 8) == Symbol("T", 8)
    assert Symbol("T", 8) != Symbol("T", 9)
    assert Symbol("T", 8) != Symbol("R", 8)
    assert (max_dim(Symbol("T", 8)), max_dim(5)) == (8, 5)


def test_text_and_sizes_of_a_type() -> None:
    t = Symbol("T", 512)
    x = TensorType((t, 576), F32)
    assert str(x) == "f32[T<=512, 576]"
    assert x.max_shape == (512, 576)
    assert x.max_bytes == 512 * 576 * 4
    assert x.with_shape((t, 9, 64)).max_bytes == x.max_bytes
    assert x.with_dtype(BF16).max_bytes == x.max_bytes // 2
    assert x.symbols() == (t,)
    assert TensorType((), I32).max_bytes == 4
    assert TensorType((10, 512), dtype("q4_k")).max_bytes == 10 * 2 * 144


@pytest.mark.parametrize("width", [32, 64, 256, 288, 576, 1536, 2048])
def test_rows_of_quantised_activations(width: int) -> None:
    padded = math.ceil(width / 256) * 256
    parts = padded + 3 * (padded // 32) * 4 + (padded // 16) * 4
    parts += padded + (padded // 16) * 4 + padded // 32
    assert q8a_row_stride(width) == math.ceil(parts / 64) * 64
    assert TensorType((3, width), Q8A).max_bytes == 3 * q8a_row_stride(width)
    assert parts == 2.90625 * padded


def test_unknown_and_partial_types_are_refused() -> None:
    with pytest.raises(IRError, match=r"unknown element type 'f8'; known: f32, .*q8a"):
        dtype("f8")
    with pytest.raises(IRError, match="q4_k: a row of 100 elements is not a multiple of the block"):
        _ = TensorType((2, 100), dtype("q4_k")).max_bytes


def test_round_up() -> None:
    assert [round_up(n, 64) for n in (0, 1, 64, 65)] == [0, 64, 64, 128]


def test_bf16_rounds_to_nearest_even() -> None:
    cases = {
        0x3F800000: 0x3F80,  # 1.0
        0x3F808000: 0x3F80,  # a tie, down to even
        0x3F818000: 0x3F82,  # a tie, up to even
        0x3F808001: 0x3F81,  # above the tie
        0x3F807FFF: 0x3F80,  # below the tie
        0x7F7FFFFF: 0x7F80,  # the largest float32 becomes infinity
        0xFF800000: 0xFF80,  # -infinity
        0x00000001: 0x0000,
        0x80000000: 0x8000,
    }
    bits = np.array(list(cases), np.uint32).view(np.float32)
    assert f32_to_bf16(bits).tolist() == list(cases.values())
    assert np.isnan(bf16_to_f32(f32_to_bf16(np.array([np.nan, -np.nan], np.float32)))).all()
    low_nan = np.array([0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(bf16_to_f32(f32_to_bf16(low_nan))).all()


def test_every_bf16_survives_the_round_trip() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    values = bf16_to_f32(bits)
    numbers = ~np.isnan(values)
    assert np.array_equal(f32_to_bf16(values)[numbers], bits[numbers])


def test_quantised_activations_element_by_element() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((4, 96)) * 10.0 ** rng.integers(-6, 6, (4, 96))).astype(np.float32)
    x[0, :32] = 0
    x[1, 32:64] = np.float32(1e-37)
    x[1, 33] = -127 * np.float32(2.0**-126)
    got = quantize_q8a(x)
    for row in range(4):
        for block in range(3):
            part = x[row, 32 * block : 32 * block + 32]
            d = np.float32(max(abs(float(v)) for v in part)) / np.float32(127)
            if d < 2.0**-126:
                d, want = np.float32(0), [0] * 32
            else:
                inverse = np.float32(1) / d
                want = [round(float(v * inverse)) for v in part]
            assert got.d[row, block] == d
            assert got.qs[row, 32 * block : 32 * block + 32].tolist() == want
    assert np.abs(got.qs.astype(int)).max() == 127
    values = got.qs.astype(np.float32) * np.repeat(got.d, 32, axis=1)
    assert np.array_equal(got.dequantize(), values)
    assert got.shape == (4, 96)


def test_infinite_activations_come_back_as_nan() -> None:
    x = np.ones((2, 32), np.float32)
    x[0, 3], x[1, 5] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        assert np.isnan(quantize_q8a(x).dequantize()).all()
