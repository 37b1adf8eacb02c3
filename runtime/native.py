"""Native code: loads an object, checks its interface version, and runs its thread pool.

The only file of the runtime that knows ctypes and LLVM. The interface is the table in
docs/architecture.md.
"""

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ggufc.runtime.bundle import ABI_VERSION
from ggufc.runtime.cpu import canonical
from ggufc.runtime.errors import MachineError, NativeCodeError
from ggufc.runtime.memory import Bytes, address, allocate

SYS_ARCH_PRCTL = 158
ARCH_REQ_XCOMP_PERM = 0x1023
XFEATURE_XTILEDATA = 18

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "ggufc_abi_version": (ctypes.c_int64,),
    "ggufc_pool_bytes": (ctypes.c_int64, ctypes.c_int64),
    "ggufc_pool_init": (None, ctypes.c_void_p, ctypes.c_int64),
    "ggufc_worker": (None, ctypes.c_void_p, ctypes.c_int64),
    "ggufc_pool_close": (None, ctypes.c_void_p),
}
# Of these an object has those that its manifest lists.
GRAPH_SIGNATURE = (ctypes.c_int32, ctypes.c_void_p)

# What a return code means; 0 is done, and anything else that nothing was done.
REFUSALS = ("", "abi_version", "n_tokens", "n_rows", "context", "n_sequences", "alignment")


class Call(ctypes.Structure):
    """`ggufc_call`: sixteen 8-byte fields."""

    _fields_ = (
        ("abi_version", ctypes.c_int64),
        ("weights", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("states", ctypes.c_void_p),
        ("tokens", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("sequences", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
        ("logits", ctypes.c_void_p),
        ("n_tokens", ctypes.c_int64),
        ("n_rows", ctypes.c_int64),
        ("context", ctypes.c_int64),
        ("n_sequences", ctypes.c_int64),
        ("profile", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
    )


class NativeCode:
    """An object loaded into this process; its functions are attributes without the `ggufc_`
    prefix."""

    abi_version: Callable[[], int]
    pool_bytes: Callable[[int], int]
    pool_init: Callable[[int, int], None]
    worker: Callable[[int, int], None]
    pool_close: Callable[[int], None]

    def __init__(self, image: bytes, name: str, graphs: Sequence[str]) -> None:
        """Link `image`, which refers to no symbol outside itself and has these `graphs`; `name` is
        for errors."""
        self.name = name
        signatures = SIGNATURES | {f"ggufc_{graph}": GRAPH_SIGNATURE for graph in graphs}
        # The tracker owns the code's memory: it has to live as long as the functions.
        self._keep, addresses = link(image, name, tuple(signatures))
        for symbol, signature in signatures.items():
            prototype = ctypes.CFUNCTYPE(*signature)
            setattr(self, symbol.removeprefix("ggufc_"), prototype(addresses[symbol]))
        found = self.abi_version()
        if found != ABI_VERSION:
            raise NativeCodeError(f"{name}: code interface {found}, this ggufc calls {ABI_VERSION}")

    def run(self, graph: str, call: Call) -> None:
        """Run one of the graphs on all threads of the call's pool. Raises NativeCodeError."""
        function: Callable[[Any], int] = getattr(self, graph)
        code = function(ctypes.byref(call))
        if code != 0:
            field = REFUSALS[code] if 0 < code < len(REFUSALS) else "unknown"
            raise NativeCodeError(f"{self.name}: {graph} refused its call: code {code} ({field})")


def link(image: bytes, name: str, symbols: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """Load an object with LLVM's linker: what keeps it alive, and the address of each of its
    entry points `symbols`."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    jit = binding.create_lljit_compiler()
    builder = binding.JITLibraryBuilder().add_object_img(image)
    for symbol in symbols:
        builder.export_symbol(symbol)
    try:
        tracker = builder.link(jit, name.encode("utf-8", "backslashreplace").decode())
    except RuntimeError as error:
        raise NativeCodeError(f"{name}: does not load: {' '.join(str(error).split())}") from None
    return (jit, tracker), {symbol: tracker[symbol] for symbol in symbols}


def allow_tiles(needs: Sequence[str]) -> None:
    """Ask Linux for the use of tile registers, which every process has to, where the code needs
    them."""
    if "amxtile" not in map(canonical, needs):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise MachineError(f"the kernel does not permit tile registers (AMX): {reason}")


class ThreadPool:
    """The threads that run graphs: this thread, as number 0, and `threads - 1` workers.

    Workers are Python threads that spend their life in native code. They do not survive a fork: a
    child process gets new ones when it asks for the pool.
    """

    def __init__(self, code: NativeCode, threads: int) -> None:
        self.code = code
        self.threads = threads
        self._start()

    def _start(self) -> None:
        self._memory = allocate(self.code.pool_bytes(self.threads))
        self._address = pool = address(self._memory)
        self.code.pool_init(pool, self.threads)
        workers = [
            threading.Thread(
                target=self.code.worker, args=(pool, i), name=f"ggufc-{i}", daemon=True
            )
            for i in range(1, self.threads)
        ]
        for worker in workers:
            worker.start()
        self._pid = os.getpid()
        # Runs at the latest when the interpreter exits, while threads can still be joined.
        self._close = weakref.finalize(
            self, close_pool, self.code, self._memory, workers, self._pid
        )

    def address(self) -> int:
        """The pool for this process, started anew in the child of a fork."""
        if os.getpid() != self._pid:
            self._close.detach()
            self._start()
        return self._address

    def close(self) -> None:
        """End the workers; closing twice does nothing."""
        self._close()


def close_pool(
    code: NativeCode, memory: Bytes, workers: Sequence[threading.Thread], pid: int
) -> None:
    """Tell the workers to return and wait for them; a forked child has none to wait for."""
    if os.getpid() != pid:
        return
    code.pool_close(address(memory))
    for worker in workers:
        worker.join()
