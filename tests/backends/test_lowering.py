"""Conversions of small floats and lookups on every instruction set here, and matrix tiles."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.backends.llvm.kernel_builder import (
    F32,
    I8,
    I16,
    I64,
    PTR,
    Function,
    Module,
    Type,
    Val,
    vec,
)
from ggufc.backends.llvm.lowering import (
    bf16_to_f32,
    e4m3_halved_to_f32,
    e8m0_halved_to_f32,
    f16_to_f32,
    f32_to_bf16,
    f32_to_f16,
    lookup,
)
from ggufc.backends.llvm.lowering.tiles import tiles_of
from ggufc.backends.llvm.optimize import data_layout
from ggufc.ir import f32_to_bf16 as reference_f32_to_bf16
from ggufc.ir.quant_reference import e4m3_halved, e8m0_halved
from tests.support.native import aligned, load, runnable_isas

ISA = pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)
LANES = 16


def native(isa: Isa, body: Callable[[Function], None]) -> Callable[..., None]:
    """A function `(source, target, count)` with this body."""
    module = Module("lowered", isa.triple, data_layout(isa))
    params = [("source", PTR), ("target", PTR), ("count", I64)]
    body(module.function("lowered", params, exported=True))
    keep, address = load(module, isa)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
    return lambda *arguments, _keep=keep: function(*arguments)


def convert(isa: Isa, source: np.ndarray, to: type, op: Callable[[Val], Val]) -> np.ndarray:
    """Every element of the source through a conversion, as vectors and as scalars."""
    types: dict[int, Type] = {1: I8, 2: I16, 4: F32}
    element = types[source.itemsize]
    results: list[np.ndarray] = []
    for lanes in (LANES, 0):

        def body(f: Function, lanes: int = lanes) -> None:
            step = lanes or 1
            with f.loop(f.arg("count"), step=step) as i:
                type_ = vec(element, lanes) if lanes else element
                value = f.load(f.arg("source") + i * source.itemsize, type_)
                f.store(op(value), f.arg("target") + i * np.dtype(to).itemsize)

        out = aligned(source.size, to)
        native(isa, body)(source.ctypes.data, out.ctypes.data, source.size)
        results.append(out)
    assert np.array_equal(results[0].view(np.uint8), results[1].view(np.uint8))
    return results[0]


def every_16_bits() -> np.ndarray:
    return np.arange(65536, dtype=np.uint32).astype(np.uint16)


def hard_floats() -> np.ndarray:
    """Float32 of every exponent, ties and their neighbours, denormals, infinities."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 1 << 16, dtype=np.uint32)
    bits[: 1 << 14] &= np.uint32(0xFFFFF000)
    bits[1 << 14 : 1 << 15] &= np.uint32(0xFFFF8000)
    bits[:6] = [0, 0x80000000, 0x7F800000, 0xFF800000, 0x477FEFFF, 0x477FF000]
    values = bits.view(np.float32)
    return np.ascontiguousarray(values[~np.isnan(values)][: 1 << 15])


@ISA
def test_every_f16_widens_exactly(isa: Isa) -> None:
    source = every_16_bits()
    out = convert(isa, source, np.float32, lambda x: f16_to_f32(isa, x))
    expected = source.view(np.float16).astype(np.float32)
    numbers = ~np.isnan(expected)
    assert np.array_equal(out[numbers].view(np.uint32), expected[numbers].view(np.uint32))
    assert np.isnan(out[~numbers]).all()


@ISA
def test_every_bf16_widens_exactly(isa: Isa) -> None:
    source = every_16_bits()
    out = convert(isa, source, np.float32, bf16_to_f32)
    assert np.array_equal(out.view(np.uint32), source.astype(np.uint32) << np.uint32(16))


@ISA
def test_f16_rounds_to_nearest_even(isa: Isa) -> None:
    source = hard_floats()
    out = convert(isa, source, np.uint16, lambda x: f32_to_f16(isa, x))
    with np.errstate(over="ignore"):
        assert np.array_equal(out, source.astype(np.float16).view(np.uint16))


@ISA
def test_bf16_rounds_to_nearest_even(isa: Isa) -> None:
    source = hard_floats()
    out = convert(isa, source, np.uint16, f32_to_bf16)
    assert np.array_equal(out, reference_f32_to_bf16(source))


@ISA
def test_nan_stays_nan(isa: Isa) -> None:
    source = np.array([0x7F800001, 0xFFC00000, 0x7FFFFFFF] * 16, np.uint32).view(np.float32)
    halves = convert(isa, source, np.uint16, lambda x: f32_to_f16(isa, x))
    assert np.isnan(halves.view(np.float16)).all()
    brains = convert(isa, source, np.uint16, f32_to_bf16)
    assert np.isnan((brains.astype(np.uint32) << np.uint32(16)).view(np.float32)).all()


@ISA
def test_every_eight_bit_scale_widens_exactly(isa: Isa) -> None:
    codes = np.arange(256, dtype=np.uint8)
    assert np.array_equal(convert(isa, codes, np.float32, e8m0_halved_to_f32), e8m0_halved(codes))
    finite = np.append(codes[:127], 0).astype(np.uint8)
    found = convert(isa, finite, np.float32, lambda x: e4m3_halved_to_f32(isa, x))
    assert np.array_equal(found, e4m3_halved(finite))


@ISA
@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_lookups_pick_from_a_table(isa: Isa, lanes: int) -> None:
    rng = np.random.default_rng(2)
    table = rng.permutation(np.arange(0, 256, 17))
    indices, out = aligned(lanes, np.uint8), aligned(lanes, np.uint8)
    indices[:] = rng.permutation(np.arange(lanes) % 16)

    def body(f: Function) -> None:
        value = f.load(f.arg("source"), vec(I8, lanes))
        f.store(lookup(isa, table.tolist(), value), f.arg("target"))

    native(isa, body)(indices.ctypes.data, out.ctypes.data, 0)
    assert np.array_equal(out, table[indices])


@pytest.mark.parametrize("rows", [16, 5])
def test_emulated_tiles_multiply_the_rows_that_are_configured(rows: int) -> None:
    isa = replace(isa_named("x86-64"), tiles=True)
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((16, 32)).astype(np.float32) for _ in range(2))
    source = aligned((2, 16, 32), np.uint16)
    source[0], source[1] = reference_f32_to_bf16(a), reference_f32_to_bf16(b)
    out = aligned((16, 16), np.float32, 7.0)

    def body(f: Function) -> None:
        tiles = tiles_of(f, isa)
        tiles.configure([rows, rows, 16])
        tiles.load(1, f.arg("source"), 64, once=True)
        tiles.load(2, f.arg("source") + 1024, 64)
        tiles.zero(0)
        tiles.multiply_bf16(0, 1, 2)
        tiles.multiply_bf16(0, 1, 2)
        tiles.store(0, f.arg("target"), 64)
        tiles.release()

    native(isa, body)(source.ctypes.data, out.ctypes.data, 0)
    x, w = ((s.astype(np.uint32) << np.uint32(16)).view(np.float32) for s in source)
    pairs = w.reshape(16, 16, 2).transpose(0, 2, 1).reshape(32, 16)
    expected = 2 * (x[:rows].astype(np.float64) @ pairs)
    assert np.abs(out[:rows] - expected).max() < 1e-5
    assert (out[rows:] == 7.0).all()


def test_amx_objects_use_tile_instructions() -> None:
    from tests.support.native import assembly

    isa = isa_named("x86-64-amx")
    module = Module("tiles", isa.triple, data_layout(isa))
    f = module.function("tiles", [("p", PTR)], exported=True)
    tiles = tiles_of(f, isa)
    tiles.configure([16] * 8)
    tiles.load(4, f.arg("p"), 64, once=True)
    tiles.load(6, f.arg("p"), 64)
    tiles.zero(0)
    tiles.multiply_bf16(0, 4, 6)
    tiles.store(0, f.arg("p"), 64)
    tiles.release()
    text = assembly(module, isa)
    wanted = ("ldtilecfg", "tileloaddt1", "tileloadd\t", "tdpbf16ps", "tilestored", "tilerelease")
    assert all(instruction in text for instruction in wanted)
