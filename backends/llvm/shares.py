"""Sharing out the work of an op while it is done: whoever has no more takes from the others.

Work is a number of pieces in order, of which every thread has an equal run of its own: what
follows each other in memory mostly stays with one processor, from op to op. A thread takes parts of
its own run, then of the others' in turn. A part is a share of what is left of a run, so that the
first ones are large and the last ones small: a thread that the system halts, or that runs slower
than the others, costs the others little. Which thread computes a piece changes no result.

    word of a run   i32 next piece | i32 turn, in a line of the thread's slot

A *turn* is one op's work; all threads count the turns that they have entered, and run the same ops
in the same order, so their counts agree. A word of an earlier turn is one where nothing has been
taken yet, a word of a later turn one where nothing is left: words need no resetting, and ops no
barrier between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ggufc.backends.llvm.kernel_builder import I32, I64, PTR, Function, Module, Val
from ggufc.backends.llvm.machine import atomic_load, compare_and_swap
from ggufc.backends.llvm.threading import run_address, turn_address

_ENTER, _TAKE = "ggufc.enter", "ggufc.take"
# What is left of a run is cut into so many parts. Measured: fewer leave threads waiting at the end,
# more cost the cache what neighbouring pieces have in common.
_PARTS = 3
_ALONE = -1


@contextmanager
def shares(
    f: Function, pool: Val, tid: Val, threads: Val, count: Val, smallest: int = 1
) -> Iterator[tuple[Val, Val]]:
    """Emit a loop over the parts [begin, end) of `count` pieces that this thread gets to do.

    Parts are multiples of `smallest` pieces, but for the last. One thread, and threads without a
    pool, do their own runs.
    """
    enter, take = _functions(f.module)
    turn = f.call(enter, I64, (pool, tid, threads))
    round_ = f.var(I64, 0)
    with f.while_("shares") as done:
        args = (pool, tid, threads, turn, round_.get(), count, f.const(I64, smallest))
        part = f.call(take, I64, args)
        begin, end = part & 0xFFFFFFFF, part >> 32
        f.continue_unless(begin >= end, done)
        yield begin, end
        round_.set(round_.get() + 1)


def _functions(module: Module) -> tuple[str, str]:
    """References of the functions `enter` and `take`, defined when they are first wanted."""
    if _ENTER not in module.functions:
        _define_enter(module)
        _define_take(module)
    return module.functions[_ENTER].ref, module.functions[_TAKE].ref


def _define_enter(module: Module) -> None:
    """The number of the turn that a thread enters, or `_ALONE` where nothing is shared."""
    params = [("pool", PTR), ("tid", I64), ("threads", I64)]
    f = module.function(_ENTER, params, I64)
    pool = f.arg("pool")
    with f.if_(pool.eq(f.null()) | (f.arg("threads") <= 1)):
        f.ret(_ALONE)
    at = turn_address(pool, f.arg("tid"))
    turn = f.load(at, I32) + 1
    f.store(turn, at)
    f.ret(turn.zext(I64))


def _define_take(module: Module) -> None:
    """The next part, its begin in the low half and its end in the high one; equal if none is.

    Counts in units of `smallest` pieces.
    """
    names = ("tid", "threads", "turn", "round", "count", "smallest")
    f = module.function(_TAKE, [("pool", PTR), *((name, I64) for name in names)], I64)
    tid, threads, turn, round_, count, smallest = map(f.arg, names)
    units = (count + (smallest - 1)) // smallest

    def part(begin: Val, end: Val) -> Val:
        return _packed(begin * smallest, f.smin(end * smallest, count))

    with f.if_(turn.eq(_ALONE)):
        with f.if_(round_ > 0):
            f.ret(0)
        f.ret(part(units * tid // threads, units * (tid + 1) // threads))
    with f.loop(threads, name="run") as i:
        owner = f.select(tid + i >= threads, tid + i - threads, tid + i)
        low, high = units * owner // threads, units * (owner + 1) // threads
        word = run_address(f.arg("pool"), owner)
        with f.while_("try") as nothing_left:
            found = atomic_load(f, word, I64, "monotonic")
            ahead = (found >> 32).trunc(I32) - turn.trunc(I32)
            begin = f.select(ahead.eq(0), found & 0xFFFFFFFF, low)
            f.continue_unless((ahead > 0) | (begin >= high), nothing_left)
            end = begin + f.smax((high - begin) // _PARTS, 1)
            with f.if_(compare_and_swap(f, word, found, _packed(end, turn))):
                f.ret(part(begin, end))
    f.ret(0)


def _packed(low: Val, high: Val) -> Val:
    return low | (high << 32)
