"""Layers with a state of a fixed size: short convolutions, selective scans, the gated delta rule.

A channel (a column of the convolution, a row of a head's state) is one thread's work for all
tokens of a call, in their order: results depend neither on the number of threads nor on how a
prompt was cut into calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, I1, I32, I64, Operand, Type, Val, vec
from ggufc.backends.llvm.kernels.rows import load_row, segments
from ggufc.backends.llvm.vector_math import exp, muladd, silu
from ggufc.ir.types import max_dim

_LANES = 16
_VECTOR = vec(F32, _LANES)
_BYTES = 4 * _LANES


class _Sequences:
    """The state of an op: where each token's part of it lies, and whether it counts yet."""

    def __init__(self, k: Kernel, name: str) -> None:
        self._k, self._state = k, k.pointer(name)
        dims = k.signature.named(name)[0].type.shape[1:]
        self._stride = 4
        for dim in dims:
            self._stride *= max_dim(dim)

    def of(self, token: Val) -> tuple[Val, Val]:
        """The part of a token's sequence, and whether the token is not its first."""
        f = self._k.f
        sequence, position = (
            f.load(self._k.pointer(name) + token * 4, I32) for name in ("sequences", "positions")
        )
        return self._state + sequence.sext(I64) * self._stride, position.ne(0)


def _kept(k: Kernel, is_kept: Val, value: Val) -> Val:
    """`value`, or zeros (also for what is not a number) where a sequence begins."""
    return k.f.select(is_kept, value, k.f.const(value.type, 0.0))


@kernel("short_conv")
def emit_short_conv(k: Kernel) -> None:
    """Blocks of 16 channels are shared out; what is left over is the last block."""
    f = k.f
    width = max_dim(k.signature.results[0].shape[1])
    whole = width // _LANES
    begin, end = k.share(-(-width // _LANES))
    with f.loop(f.smin(end, f.const(I64, whole)), begin, name="block") as block:
        _convolve(k, block * _LANES, _LANES)
    if width % _LANES:
        with f.if_((begin < end) & end.eq(whole + 1)):
            for start, lanes in segments(width % _LANES):
                _convolve(k, f.const(I64, whole * _LANES + start), lanes)


def _convolve(k: Kernel, channel: Val, lanes: int) -> None:
    """All tokens of `lanes` channels from `channel` on."""
    f, type_ = k.f, vec(F32, lanes)
    width, count = k.signature.named("weight")[0].type.max_shape
    states = _Sequences(k, "window")
    taps = _columns(k, k.pointer("weight") + channel * (4 * count), lanes, count)
    biases = [f.load(bias + channel * 4, type_) for bias in k.pointers("bias")]
    column, out = k.pointer("x") + channel * 4, k.result() + channel * 4
    with f.loop(k.n, name="token") as token:
        own, is_kept = states.of(token)
        own = own + channel * 4
        inputs = [_kept(k, is_kept, f.load(own, type_, 4 * width * i)) for i in range(count - 1)]
        inputs.append(f.load(column + token * (4 * width), type_))
        total = biases[0] if biases else f.const(type_, 0.0)
        for tap, value in zip(taps, inputs, strict=True):
            total = muladd(tap, value, total)
        for i, value in enumerate(inputs[1:]):
            f.store(value, own, 4 * width * i)
        if k.signature.attribute("activation") == "silu":
            total = silu(total)
        f.store(total, out + token * (4 * width))


def _columns(k: Kernel, rows: Val, lanes: int, count: int) -> list[Val]:
    """The columns of `lanes` rows of `count` numbers."""
    parts = [load_row(k.f, rows, i * count, count) for i in range(lanes)]
    columns = []
    for tap in range(count):
        column = k.f.const(vec(F32, lanes), 0.0)
        for lane, part in enumerate(parts):
            column = column.with_lane(lane, part.lane(tap))
        columns.append(column)
    return columns


Step = Callable[[Operand, Val | None], None]


def _each_vector(k: Kernel, width: int, step: Step) -> None:
    """Call `step(byte offset, mask)` for the vectors of a row; what the mask leaves out is 0."""
    whole = width // _LANES * _BYTES
    if whole:
        with k.f.loop(whole, step=_BYTES, name="vector") as at:
            step(at, None)
    if width % _LANES:
        step(whole, k.f.const_lanes(I1, [i < width % _LANES for i in range(_LANES)]))


def _load(k: Kernel, pointer: Val, at: Operand, mask: Val | None) -> Val:
    if mask is None:
        return k.f.load(pointer, _VECTOR, at)
    return k.f.masked_load(pointer, _VECTOR, mask, at)


def _store(k: Kernel, value: Val, pointer: Val, at: Operand, mask: Val | None) -> None:
    if mask is None:
        k.f.store(value, pointer, at)
    else:
        k.f.masked_store(value, pointer, mask, at)


def _scalar(k: Kernel, pointer: Val, index: Val, type_: Type = F32) -> Val:
    return k.f.load(pointer + index * 4, type_)


def _each_row(k: Kernel, body: Callable[[Val, Val, Val, Val], None]) -> None:
    """Share out the rows of all heads' states, and call `body(row, token, own, is_kept)` for blocks
    of `_rows(k)` rows from `row` on, for each token in turn; `own` is its sequence's state."""
    f = k.f
    _, heads, size = k.signature.results[0].max_shape
    count = _rows(k)
    begin, end = k.share(heads * size // count)
    states = _Sequences(k, "state")
    with f.loop(end, begin, name="block") as block, f.loop(k.n, name="token") as token:
        body(block * count, token, *states.of(token))


def _rows(k: Kernel) -> int:
    """How many rows of one head are worked on together: what they read of a token is read once."""
    size = k.signature.results[0].max_shape[2]
    return next(count for count in (4, 2, 1) if size % count == 0)


@kernel("selective_scan")
def emit_selective_scan(k: Kernel) -> None:
    """Rows of N elements of the state, one for each element of x, are shared out."""
    _each_row(k, partial(_scan, k))


def _scan(k: Kernel, row: Val, token: Val, own: Val, is_kept: Val) -> None:
    """One token of some rows of a head's state."""
    f, rows = k.f, range(_rows(k))
    _, heads, size = k.signature.results[0].max_shape
    _, groups, width = k.signature.named("b")[0].type.max_shape
    columns = k.signature.named("a")[0].type.max_shape[1]
    head = row // size
    group = (token * groups + head // (heads // groups)) * (4 * width)
    inputs, outputs = k.pointer("b") + group, k.pointer("c") + group
    rates, place = k.pointer("a") + head * (4 * columns), own + row * (4 * width)
    at_row = (token * (heads * size) + row) * 4
    xs = [f.load(k.pointer("x") + at_row, F32, 4 * i) for i in rows]
    dt = _scalar(k, k.pointer("dt"), token * heads + head)
    step, scaled = dt.splat(_LANES), [(dt * x).splat(_LANES) for x in xs]
    one_rate = exp(f.load(rates, F32) * dt).splat(_LANES) if columns == 1 else None
    totals = [f.var(_VECTOR, 0.0) for _ in rows]

    def advance(at: Operand, mask: Val | None) -> None:
        factor = exp(_load(k, rates, at, mask) * step) if one_rate is None else one_rate
        b, c = _load(k, inputs, at, mask), _load(k, outputs, at, mask)
        for i in rows:
            state = place + 4 * width * i
            before = _kept(k, is_kept, _load(k, state, at, mask))
            after = muladd(factor, before, scaled[i] * b)
            _store(k, after, state, at, mask)
            totals[i].set(muladd(after, c, totals[i].get()))

    _each_vector(k, width, advance)
    skip = _scalar(k, k.pointer("skip"), head)
    for i in rows:
        y = muladd(skip, xs[i], f.reduce_add(totals[i].get()))
        f.store(y, k.result() + at_row, 4 * i)


@kernel("gated_delta_rule")
def emit_gated_delta_rule(k: Kernel) -> None:
    """Rows of Dk elements of the state, one for each element of v, are shared out."""
    _each_row(k, partial(_correct, k))


def _correct(k: Kernel, row: Val, token: Val, own: Val, is_kept: Val) -> None:
    """One token of some rows of a head's state: they decay and are read by the key; then they are
    corrected and read by the query."""
    f, rows = k.f, range(_rows(k))
    _, heads, size = k.signature.results[0].max_shape
    width = k.signature.named("k")[0].type.max_shape[2]
    head = row // size
    start = (token * k.signature.named("k")[0].type.max_shape[1] + _key_head(k, head)) * (4 * width)
    query, key = k.pointer("q") + start, k.pointer("k") + start
    place, item = own + row * (4 * width), token * heads + head
    factor = exp(_scalar(k, k.pointer("decay"), item)).splat(_LANES)
    held, read = ([f.var(_VECTOR, 0.0) for _ in rows] for _ in range(2))

    def look_up(at: Operand, mask: Val | None) -> None:
        keys = _load(k, key, at, mask)
        for i in rows:
            kept = _kept(k, is_kept, _load(k, place + 4 * width * i, at, mask)) * factor
            held[i].set(muladd(kept, keys, held[i].get()))

    _each_vector(k, width, look_up)
    at_row = (token * (heads * size) + row) * 4
    beta = _scalar(k, k.pointer("beta"), item)
    changes = [
        ((f.load(k.pointer("v") + at_row, F32, 4 * i) - f.reduce_add(held[i].get())) * beta).splat(
            _LANES
        )
        for i in rows
    ]

    def correct(at: Operand, mask: Val | None) -> None:
        keys, queries = _load(k, key, at, mask), _load(k, query, at, mask)
        for i in rows:
            state = place + 4 * width * i
            kept = _kept(k, is_kept, _load(k, state, at, mask)) * factor
            after = muladd(changes[i], keys, kept)
            _store(k, after, state, at, mask)
            read[i].set(muladd(after, queries, read[i].get()))

    _each_vector(k, width, correct)
    for i in rows:
        f.store(f.reduce_add(read[i].get()), k.result() + at_row, 4 * i)


def _key_head(k: Kernel, head: Val) -> Val:
    """The key head that a value head reads."""
    heads, key_heads = (k.signature.named(n)[0].type.max_shape[1] for n in ("v", "k"))
    return head % key_heads if k.signature.attribute("tiled") else head // (heads // key_heads)
