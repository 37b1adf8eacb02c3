"""Small kernels that measure what a machine can do: how fast it reads memory, and how many
operations a second each unit makes when nothing but registers is touched.

    i64  probe_clock()                                what profiles count in
    void probe_<read>(ptr base, i64 bytes, ptr sink)  reads all bytes once (a multiple of 4096)
    void probe_<unit>(ptr data, i64 rounds, ptr sink) multiplies registers filled from `data`

`data` holds `DATA_BYTES` of random numbers of the unit's type (float32 below 0.5, or any bf16 or
int8), since processors slow down under random data; `sink` takes what was computed, so that
nothing can be left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import (
    BF16,
    F32,
    I8,
    I16,
    I32,
    I64,
    PTR,
    VOID,
    Function,
    Module,
    Type,
    Val,
    vec,
)
from ggufc.backends.llvm.lowering.tiles import TILE_BYTES, TILE_ROW_BYTES, TILE_ROWS, tiles_of
from ggufc.backends.llvm.machine import clock
from ggufc.backends.llvm.object_code import emit_object
from ggufc.backends.llvm.optimize import data_layout, parse, run_passes, target_machine
from ggufc.backends.llvm.threading import define_pool
from ggufc.backends.llvm.vector_math import muladd

DATA_BYTES = 8 * TILE_BYTES
SINK_BYTES = 8 * TILE_BYTES
READ_UNIT = 4096
# Bytes that reading asks for ahead, and streams of one thread: the best differs by machine.
READS = {"read": (0, 1), "read_ahead": (2304, 1), "read_streams": (0, 4)}

_LINE = 64
_SUMS = 12  # more than a unit has products under way at a time
_NARROW_PRODUCTS = 8  # of codes below 16: as many as a sum in 16 bits holds


@dataclass(frozen=True)
class Unit:
    """Something that multiplies: when an instruction set has it, and the operations (a multiply-add
    is two) of one round of its probe."""

    name: str
    exists: Callable[[Isa], bool]
    operations: Callable[[Isa], int]
    emit: Callable[[Function, Isa], None]


@dataclass(frozen=True)
class Probes:
    """An object with the probes of an instruction set; `units` has operations of a round."""

    object: bytes
    units: dict[str, int]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The functions in it."""
        return ("probe_clock", *(f"probe_{name}" for name in (*READS, *self.units)))


def compile_probes(isa: Isa) -> Probes:
    """Make the probes of an instruction set."""
    parsed, machine = parse(probe_module(isa).text()), target_machine(isa)
    run_passes(parsed, machine)
    units = {unit.name: unit.operations(isa) for unit in units_of(isa)}
    return Probes(emit_object(parsed, machine), units)


def units_of(isa: Isa) -> list[Unit]:
    """The units that an instruction set has."""
    return [unit for unit in UNITS if unit.exists(isa)]


def probe_module(isa: Isa) -> Module:
    """The code of the probes."""
    module = Module("probes", isa.triple, data_layout(isa))
    f = module.function("probe_clock", [], I64, exported=True)
    f.ret(clock(f, isa))
    for name, (ahead, streams) in READS.items():
        _emit_read(_probe(module, name, "bytes"), isa, ahead, streams)
    for unit in units_of(isa):
        unit.emit(_probe(module, unit.name, "rounds"), isa)
    define_pool(module, isa)
    return module


def _probe(module: Module, name: str, count: str) -> Function:
    params = [("data", PTR), (count, I64), ("sink", PTR)]
    return module.function(f"probe_{name}", params, exported=True)


def _emit_read(f: Function, isa: Isa, ahead: int, streams: int) -> None:
    """Join all words, a line of each stream at a time."""
    word = vec(I32, isa.vector_bits // 32)
    base, part = f.arg("data"), f.arg("bytes") // streams
    words = range(0, _LINE, word.nbytes)
    sums = [[f.var(word, 0) for _ in words] for _ in range(2 * streams)]
    with f.loop(part, step=2 * _LINE, name="read") as at:
        for index, line in enumerate(sums):
            stream, which = divmod(index, 2)
            pointer = base + (part * stream + at)
            if ahead:
                f.prefetch(pointer, ahead + which * _LINE)
            for total, offset in zip(line, words, strict=True):
                found = f.load(pointer, word, which * _LINE + offset)
                total.set(total.get() | found)
    _keep(f, [total.get() for line in sums for total in line])


def _keep(f: Function, values: list[Val]) -> None:
    """Store the sum of all values, so that each was needed."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    f.store(total, f.arg("sink"))


def _in_registers(
    f: Function, sums: Type, operands: Type, step: Callable[[Val, list[Val]], Val]
) -> None:
    """Rounds in which `step` adds a product to each of many sums that do not wait for another."""
    data = f.arg("data")
    totals = [f.var(sums, f.load(data, sums, i * sums.nbytes)) for i in range(_SUMS)]
    inputs = [f.load(data, operands, i * operands.nbytes) for i in range(2)]
    with f.loop(f.arg("rounds"), name="round"):
        for total in totals:
            total.set(step(total.get(), inputs))
    _keep(f, [total.get() for total in totals])


def _float_lanes(isa: Isa) -> int:
    return isa.vector_bits // 32


def _emit_f32(f: Function, isa: Isa) -> None:
    lanes = vec(F32, _float_lanes(isa))
    _in_registers(f, lanes, lanes, lambda total, x: muladd(total, x[0], x[1]))


def _emit_bf16(f: Function, isa: Isa) -> None:
    lanes, name = _float_lanes(isa), f"x86.avx512bf16.dpbf16ps.{isa.vector_bits}"
    sums, pairs = vec(F32, lanes), vec(BF16, 2 * lanes)
    _in_registers(f, sums, pairs, lambda total, x: f.intrinsic(name, sums, [total, *x]))


def _emit_int8(f: Function, isa: Isa) -> None:
    {"vnni512": _emit_vnni, "avx2": _emit_avx2, "sdot": _emit_sdot, "generic": _emit_generic}[
        isa.dot
    ](f, isa)


def _emit_vnni(f: Function, isa: Isa) -> None:
    sums = vec(I32, 16)
    _in_registers(
        f,
        sums,
        vec(I8, 64),
        lambda total, x: f.intrinsic("x86.avx512.vpdpbusd.512", sums, [total, *x]),
    )


def _emit_sdot(f: Function, isa: Isa) -> None:
    sums, operands = vec(I32, 4), vec(I8, 16)
    _in_registers(
        f,
        sums,
        operands,
        lambda total, x: f.intrinsic("aarch64.neon.sdot", sums, [total, *x], (sums, operands)),
    )


def _emit_avx2(f: Function, isa: Isa) -> None:
    """Products are summed in 16 bits as often as they fit, then widened. Codes come from the sums:
    products of the same numbers would be made only once."""
    sums, narrow, operands = vec(I32, 8), vec(I16, 16), vec(I8, 32)

    def step(total: Val, _inputs: list[Val]) -> Val:
        codes, products = total.bitcast(operands) & 15, f.const(narrow, 0)
        for i in range(_NARROW_PRODUCTS):
            x = f.load(f.arg("data"), operands, i * operands.nbytes)
            products = products + f.intrinsic("x86.avx2.pmadd.ub.sw", narrow, [codes, x])
        widened = f.intrinsic("x86.avx2.pmadd.wd", sums, [products, f.const(narrow, 1)])
        return total + widened

    _in_registers(f, sums, operands, step)


def _emit_generic(f: Function, isa: Isa) -> None:
    lanes = vec(I16, isa.vector_bits // 16)
    _in_registers(f, lanes, lanes, lambda total, x: total * x[0] + x[1])


def _int8_operations(isa: Isa) -> int:
    """Of one round: two for each product."""
    products = {
        "vnni512": 64,
        "avx2": 32 * _NARROW_PRODUCTS,
        "sdot": 16,
        "generic": isa.vector_bits // 16,
    }
    return 2 * products[isa.dot] * _SUMS


def _emit_tiles(product: str) -> Callable[[Function, Isa], None]:
    """Two tiles by two tiles, as products are made."""

    def emit(f: Function, isa: Isa) -> None:
        tiles = tiles_of(f, isa)
        tiles.configure([TILE_ROWS] * 8)
        for tile in range(4, 8):
            tiles.load(tile, f.arg("data") + tile * TILE_BYTES, TILE_ROW_BYTES)
        with f.loop(f.arg("rounds"), name="round"):
            for c in range(4):
                numbers = [f.const(I8, n) for n in (c, 4 + c // 2, 6 + c % 2)]
                f.intrinsic(f"x86.{product}", VOID, numbers)
        for tile in range(4):
            tiles.store(tile, f.arg("sink") + tile * TILE_BYTES, TILE_ROW_BYTES)
        tiles.release()

    return emit


def _tile_operations(k: int) -> Callable[[Isa], int]:
    """Of four products of tiles with `k` elements a row."""
    return lambda isa: 4 * 2 * TILE_ROWS * TILE_ROWS * k


# By name, what an op can run against.
UNITS = (
    Unit(
        "f32_fma",
        lambda isa: True,
        lambda isa: 2 * _float_lanes(isa) * _SUMS,
        _emit_f32,
    ),
    Unit("int8_dot", lambda isa: True, _int8_operations, _emit_int8),
    Unit(
        "bf16_dot",
        lambda isa: isa.has_bf16_dot,
        lambda isa: 4 * _float_lanes(isa) * _SUMS,
        _emit_bf16,
    ),
    Unit(
        "int8_tiles",
        lambda isa: "amx-int8" in isa.features,
        _tile_operations(TILE_ROW_BYTES),
        _emit_tiles("tdpbssd"),
    ),
    Unit(
        "bf16_tiles",
        lambda isa: "amx-bf16" in isa.features,
        _tile_operations(TILE_ROW_BYTES // 2),
        _emit_tiles("tdpbf16ps"),
    ),
)
