"""The thread pool inside an object: waiting, barriers, and the life of a worker.

Everything is made of one thing, a *line*: a cache line with a counter that one thread advances and
others wait for. Waiting spins for a while, then sleeps in the kernel; advancing wakes only where
somebody sleeps.

    line   i32 count, i32 sleepers
    pool   i64 threads | line of jobs, with the graph and call of the current job | a slot for each
    thread slot   line of arrivals | private to the thread: i32 patience, spins before a sleep; i32
    turn | line of the thread's run of shared work (`shares.py`)

No wake-up is lost: the waiter raises `sleepers` before it looks at `count` a last time, the
advancing thread writes `count` before it looks at `sleepers`, all four in one total order; and the
kernel lets nobody sleep whose `count` has changed since that look.
"""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import I32, I64, PTR, VOID, Function, Module, Val
from ggufc.backends.llvm.machine import (
    atomic_load,
    atomic_store,
    atomic_update,
    define_futex,
    futex_wait,
    futex_wake,
    pause,
)

LINE = 64
_SLEEPERS = 4
_JOBS = LINE
_GRAPH, _CALL = _JOBS + 16, _JOBS + 24
_SLOTS = 2 * LINE
_SLOT = 3 * LINE
_PATIENCE, _TURN, _RUN = LINE, LINE + 4, 2 * LINE

# At a barrier, the longest patience is about the time that the kernel takes to wake a thread. A
# wait that ends in a sleep costs three quarters of the patience, one that does not gives some back:
# where threads outnumber cores, spinning takes the time that the awaited thread needs.
MAX_PATIENCE, MIN_PATIENCE, _REGAIN = 20_000, 256, 64
# Between two calls, long enough for the caller to choose a token.
JOB_PATIENCE = 60_000

_SIGNAL, _WAIT, _SLEEP, _BARRIER = (f"ggufc.{n}" for n in ("signal", "wait", "sleep", "barrier"))
_COLD = "nounwind noinline cold"


def pool_bytes(threads: int) -> int:
    """Bytes of a pool for this many threads."""
    return _SLOTS + max(threads, 1) * _SLOT


def turn_address(pool: Val, tid: Val) -> Val:
    """Where a thread counts its turns: how often work was shared out among the threads."""
    return pool + (tid * _SLOT + (_SLOTS + _TURN))


def run_address(pool: Val, tid: Val) -> Val:
    """Where is noted what has been taken of a thread's run of shared work."""
    return pool + (tid * _SLOT + (_SLOTS + _RUN))


def barrier(f: Function, pool: Val, tid: Val, threads: Val) -> None:
    """Emit a barrier: no thread goes on before all have come and all that they wrote is seen."""
    f.call(f'@"{_BARRIER}"', VOID, (pool, tid, threads))


def define_pool(module: Module, isa: Isa) -> None:
    """Define the pool's functions: the barrier for kernels and graphs, and the exported ones."""
    define_futex(module, isa)
    _define_signal(module, isa)
    _define_sleep(module, isa)
    _define_wait(module, isa)
    _define_barrier(module)
    _define_pool_bytes(module)
    _define_pool_init(module)
    _define_pool_close(module)
    _define_worker(module)


def run_on_all(f: Function, graph: str, call: Val, pool: Val) -> None:
    """Emit: post the graph to the workers, then run it as thread 0. Graphs end with a barrier."""
    threads = f.load(pool, I64)
    with f.if_(threads > 1):
        _post(f, pool, Val(f, graph, PTR), call)
    f.call(graph, VOID, (call, f.const(I64, 0), threads, pool))


def _post(f: Function, pool: Val, graph: Val, call: Val) -> None:
    f.store(graph, pool, _GRAPH)
    f.store(call, pool, _CALL)
    jobs = pool + _JOBS
    following = atomic_load(f, jobs, I32, "monotonic") + 1
    f.call(f'@"{_SIGNAL}"', VOID, (jobs, following))


def _define_signal(module: Module, isa: Isa) -> None:
    """Advance a line's count; only one thread does that."""
    f = module.function(_SIGNAL, [("line", PTR), ("count", I32)], attributes="nounwind")
    line = f.arg("line")
    atomic_update(f, "xchg", line, f.arg("count"))
    with f.if_(atomic_load(f, line + _SLEEPERS, I32, "seq_cst").ne(0)):
        futex_wake(f, isa, line)


def _define_sleep(module: Module, isa: Isa) -> None:
    """Sleep until the line has reached the count."""
    f = module.function(_SLEEP, [("line", PTR), ("count", I32)], attributes=_COLD)
    line, sleepers = f.arg("line"), f.arg("line") + _SLEEPERS
    atomic_update(f, "add", sleepers, f.const(I32, 1))
    with f.while_() as awake:
        found = atomic_load(f, line, I32, "seq_cst")
        f.continue_unless(found - f.arg("count") >= 0, awake)
        futex_wait(f, isa, line, found)
    atomic_update(f, "sub", sleepers, f.const(I32, 1))


def _define_wait(module: Module, isa: Isa) -> None:
    """Spin at most `patience` times, then sleep, until the line has the count; 1 if it slept."""
    params = [("line", PTR), ("count", I32), ("patience", I32)]
    f = module.function(_WAIT, params, I32)
    line, count = f.arg("line"), f.arg("count")
    left, slept = f.var(I32, f.arg("patience")), f.var(I32, 0)
    with f.while_() as reached:
        f.continue_unless(atomic_load(f, line, I32) - count >= 0, reached)
        pause(f, isa)
        left.set(left.get() - 1)
        with f.if_(left.get() <= 0):
            f.call(f'@"{_SLEEP}"', VOID, (line, count))
            slept.set(1)
    f.ret(slept.get())


def _define_barrier(module: Module) -> None:
    """A dissemination barrier: in round k a thread waits for the one 2^k before it, log2(threads)
    rounds.

    A count is the number of rounds that its thread has entered since the pool was made.
    """
    params = [("pool", PTR), ("tid", I64), ("threads", I64)]
    f = module.function(_BARRIER, params, attributes="nounwind noinline")
    tid, threads, slots = f.arg("tid"), f.arg("threads"), f.arg("pool") + _SLOTS
    mine = slots + tid * _SLOT
    distance = f.var(I64, 1)
    with f.while_() as done:
        d = distance.get()
        f.continue_unless(d >= threads, done)
        entered = atomic_load(f, mine, I32, "monotonic") + 1
        f.call(f'@"{_SIGNAL}"', VOID, (mine, entered))
        before = f.select(tid >= d, tid - d, tid - d + threads)
        _wait_patiently(f, slots + before * _SLOT, entered, mine + _PATIENCE)
        distance.set(d << 1)


def _wait_patiently(f: Function, line: Val, count: Val, at: Val) -> None:
    """Wait with the patience stored at `at`, and learn from how it ended."""
    patience = f.load(at, I32)
    slept = f.call(f'@"{_WAIT}"', I32, (line, count, patience))
    more = f.smin(patience + _REGAIN, MAX_PATIENCE)
    less = f.smax(patience >> 2, MIN_PATIENCE)
    f.store(f.select(slept.ne(0), less, more), at)


def _define_pool_bytes(module: Module) -> None:
    f = module.function("ggufc_pool_bytes", [("threads", I64)], I64, exported=True)
    f.ret(f.smax(f.arg("threads"), 1) * _SLOT + _SLOTS)


def _define_pool_init(module: Module) -> None:
    params = [("pool", PTR), ("threads", I64)]
    f = module.function("ggufc_pool_init", params, exported=True)
    pool, threads = f.arg("pool"), f.smax(f.arg("threads"), 1)
    with f.loop(threads * _SLOT + _SLOTS, step=8) as i:
        f.store(f.const(I64, 0), pool + i)
    f.store(threads, pool)
    with f.loop(threads) as thread:
        f.store(f.const(I32, MAX_PATIENCE), pool + thread * _SLOT, _SLOTS + _PATIENCE)
    # Threads that read the pool are started by the caller, which orders all of this before them.
    atomic_store(f, f.const(I32, 0), pool + _JOBS)
    f.ret()


def _define_pool_close(module: Module) -> None:
    """A job without a graph ends every worker."""
    f = module.function("ggufc_pool_close", [("pool", PTR)], exported=True)
    _post(f, f.arg("pool"), f.null(), f.null())
    f.ret()


def _define_worker(module: Module) -> None:
    """Wait for a job, run its graph, again, until a job has none.

    Jobs count from 1 since `ggufc_pool_init`, so that one posted before the worker came is not
    missed. The graph's last barrier keeps the next job from being posted before every worker has
    read this one.
    """
    params = [("pool", PTR), ("index", I64)]
    f = module.function("ggufc_worker", params, exported=True)
    pool = f.arg("pool")
    job = f.var(I32, 0)
    with f.while_() as closed:
        job.set(job.get() + 1)
        f.call(f'@"{_WAIT}"', I32, (pool + _JOBS, job.get(), f.const(I32, JOB_PATIENCE)))
        graph = f.load(pool, PTR, _GRAPH)
        f.continue_unless(graph.eq(f.null()), closed)
        args = (f.load(pool, PTR, _CALL), f.arg("index"), f.load(pool, I64), pool)
        f.call(graph.ref, VOID, args)
    f.ret()
