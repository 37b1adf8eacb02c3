"""Rotary position embedding: the table of cosines and sines, and the rotation of heads."""

from __future__ import annotations

from collections.abc import Callable

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, I32, Function, Val
from ggufc.backends.llvm.kernels.rows import load_row, segments
from ggufc.backends.llvm.vector_math import muladd, sincos

Loader = Callable[[int, int], Val]
# Heads and rows of the table that a thread takes at a time at least.
_PART_HEADS, _PART_ROWS = 64, 16


@kernel("rope_table")
def emit_rope_table(k: Kernel) -> None:
    """Rows of R/2 cosines, then R/2 sines, of float32(position) * freq, times scale."""
    f, half = k.f, k.signature.results[0].max_shape[1] // 2
    scale = k.signature.attribute("scale")
    positions, freqs, out = k.pointer("positions"), k.pointer("freqs"), k.result()
    with k.shares(k.n, _PART_ROWS) as (begin, end), f.loop(end, begin, name="token") as token:
        position = f.load(positions + token * 4, I32).sitofp(F32)
        row, chosen = out + token * (8 * half), _frequencies(k, token, freqs)
        for start, lanes in segments(half):
            sine, cosine = sincos(load_row(f, chosen, start, lanes) * position.splat(lanes))
            f.store(cosine * scale, row, 4 * start)
            f.store(sine * scale, row, 4 * (half + start))


def _frequencies(k: Kernel, token: Val, freqs: Val) -> Val:
    """Those of a token's sequence, which may be a long one."""
    f, chosen = k.f, freqs
    for lengths, long_freqs in zip(k.pointers("lengths"), k.pointers("long_freqs"), strict=True):
        is_long = f.load(lengths + token * 4, I32) > int(k.signature.attribute("short_context"))
        chosen = f.select(is_long, long_freqs, freqs)
    return chosen


@kernel("rope")
def emit_rope(k: Kernel) -> None:
    """Every head rotated; may work in place."""
    f, pairing = k.f, k.signature.attribute("pairing")
    (_, heads, dim), (_, rotated) = (k.signature.named(n)[0].type.max_shape for n in ("x", "table"))
    x, table, out = k.pointer("x"), k.pointer("table"), k.result()
    with (
        k.shares(k.n * heads, _PART_HEADS) as (begin, end),
        f.loop(end, begin, name="head") as item,
    ):
        angles = table + item // heads * (4 * rotated)
        source, target = x + item * (4 * dim), out + item * (4 * dim)
        rotate_row(f, _loader(f, source), target, angles, rotated, dim, pairing)


def rotate_row(
    f: Function, load: Loader, target: Val, angles: Val, rotated: int, dim: int, pairing: str
) -> None:
    """Store a head at `target`, its first `rotated` of `dim` elements turned by a row of the table.

    `load(element, lanes)` gives the head's elements; each is read before its place is written.
    """
    rotate = _rotate_halves if pairing == "half" else _rotate_neighbours
    rotate(f, load, target, angles, rotated // 2)
    for start, lanes in segments(dim - rotated):
        f.store(load(rotated + start, lanes), target, 4 * (rotated + start))


def _loader(f: Function, row: Val) -> Loader:
    return lambda element, lanes: load_row(f, row, element, lanes)


def _rotate_halves(f: Function, load: Loader, target: Val, angles: Val, half: int) -> None:
    for start, lanes in segments(half):
        a, b = load(start, lanes), load(half + start, lanes)
        first, second = _turn(f, a, b, angles, half, start)
        f.store(first, target, 4 * start)
        f.store(second, target, 4 * (half + start))


def _rotate_neighbours(f: Function, load: Loader, target: Val, angles: Val, half: int) -> None:
    for start, lanes in segments(half):
        pairs = load(2 * start, 2 * lanes)
        a = f.shuffle(pairs, None, range(0, 2 * lanes, 2))
        b = f.shuffle(pairs, None, range(1, 2 * lanes, 2))
        first, second = _turn(f, a, b, angles, half, start)
        order = [i + side * lanes for i in range(lanes) for side in (0, 1)]
        f.store(f.shuffle(first, second, order), target, 8 * start)


def _turn(f: Function, a: Val, b: Val, angles: Val, half: int, start: int) -> tuple[Val, Val]:
    cosine = load_row(f, angles, start, a.type.lanes)
    sine = load_row(f, angles, half + start, a.type.lanes)
    return muladd(a, cosine, -(b * sine)), muladd(a, sine, b * cosine)
