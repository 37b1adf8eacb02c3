"""Layers with a state of a fixed size: short convolutions, selective scans, the gated delta rule.

A channel (a column of the convolution, a row of a head's state) is one thread's work for all
tokens of a call, in their order: results depend neither on the number of threads nor on how a
prompt was cut into calls.
"""

from __future__ import annotations

from collections.abc import Callable

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


@kernel("selective_scan")
def emit_selective_scan(k: Kernel) -> None:
    """Rows of N elements of the state, one for each element of x, are shared out."""
    f = k.f
    _, heads, size = k.signature.results[0].max_shape
    begin, end = k.share(heads * size)
    states = _Sequences(k, "state")
    with f.loop(end, begin, name="row") as row:
        with f.loop(k.n, name="token") as token:
            own, is_kept = states.of(token)
            _scan(k, row, token, own, is_kept)


def _scan(k: Kernel, row: Val, token: Val, own: Val, is_kept: Val) -> None:
    """One token of one row of the state of its sequence, which is at `own`."""
    f = k.f
    _, heads, size = k.signature.results[0].max_shape
    _, groups, width = k.signature.named("b")[0].type.max_shape
    columns = k.signature.named("a")[0].type.max_shape[1]
    head = row // size
    group = (token * groups + head // (heads // groups)) * (4 * width)
    inputs, outputs = k.pointer("b") + group, k.pointer("c") + group
    rates, place = k.pointer("a") + head * (4 * columns), own + row * (4 * width)
    x = _scalar(k, k.pointer("x"), token * (heads * size) + row)
    dt = _scalar(k, k.pointer("dt"), token * heads + head)
    step, scaled = dt.splat(_LANES), (dt * x).splat(_LANES)
    one_rate = exp(f.load(rates, F32) * dt).splat(_LANES) if columns == 1 else None
    total = f.var(_VECTOR, 0.0)

    def advance(at: Operand, mask: Val | None) -> None:
        factor = exp(_load(k, rates, at, mask) * step) if one_rate is None else one_rate
        before = _kept(k, is_kept, _load(k, place, at, mask))
        after = muladd(factor, before, scaled * _load(k, inputs, at, mask))
        _store(k, after, place, at, mask)
        total.set(muladd(after, _load(k, outputs, at, mask), total.get()))

    _each_vector(k, width, advance)
    y = muladd(_scalar(k, k.pointer("skip"), head), x, f.reduce_add(total.get()))
    f.store(y, k.result() + (token * (heads * size) + row) * 4)


@kernel("gated_delta_rule")
def emit_gated_delta_rule(k: Kernel) -> None:
    """Rows of Dk elements of the state, one for each element of v, are shared out."""
    f = k.f
    _, heads, size = k.signature.results[0].max_shape
    begin, end = k.share(heads * size)
    states = _Sequences(k, "state")
    with f.loop(end, begin, name="row") as row:
        with f.loop(k.n, name="token") as token:
            own, is_kept = states.of(token)
            _correct(k, row, token, own, is_kept)


def _correct(k: Kernel, row: Val, token: Val, own: Val, is_kept: Val) -> None:
    """One token of one row of the state of its sequence, which is at `own`: the row decays and is
    read by the key; then it is corrected and read by the query."""
    f = k.f
    _, heads, size = k.signature.results[0].max_shape
    _, key_heads, width = k.signature.named("k")[0].type.max_shape
    head = row // size
    is_tiled = bool(k.signature.attribute("tiled"))
    key_head = head % key_heads if is_tiled else head // (heads // key_heads)
    start = (token * key_heads + key_head) * (4 * width)
    query, key = k.pointer("q") + start, k.pointer("k") + start
    place, item = own + row * (4 * width), token * heads + head
    factor = exp(_scalar(k, k.pointer("decay"), item)).splat(_LANES)
    held, read = f.var(_VECTOR, 0.0), f.var(_VECTOR, 0.0)

    def decay(at: Operand, mask: Val | None) -> None:
        kept = _kept(k, is_kept, _load(k, place, at, mask)) * factor
        _store(k, kept, place, at, mask)
        held.set(muladd(kept, _load(k, key, at, mask), held.get()))

    _each_vector(k, width, decay)
    at_row = token * (heads * size) + row
    missing = _scalar(k, k.pointer("v"), at_row) - f.reduce_add(held.get())
    change = (missing * _scalar(k, k.pointer("beta"), item)).splat(_LANES)

    def correct(at: Operand, mask: Val | None) -> None:
        after = muladd(change, _load(k, key, at, mask), _load(k, place, at, mask))
        _store(k, after, place, at, mask)
        read.set(muladd(after, _load(k, query, at, mask), read.get()))

    _each_vector(k, width, correct)
    f.store(f.reduce_add(read.get()), k.result() + at_row * 4)
