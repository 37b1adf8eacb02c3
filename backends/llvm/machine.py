"""What generated code needs of the machine below LLVM IR: atomics, the kernel's futex, hints, a
clock.

Each is a function that emits into the function under construction. There is no inline assembly:
LLVM can only read that for the family that it runs on, and objects are made on any machine for any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import I1, I32, I64, PTR, VOID, Function, Module, Type, Val

Order = Literal["monotonic", "acquire", "release", "seq_cst"]

_FUTEX = "ggufc.futex"
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_EVERY_WAITER = 0x7FFFFFFF


@dataclass(frozen=True)
class _Family:
    """A processor family: intrinsics of its own, and a system call as machine code.

    The code is a function (number, word, operation, value) -> result: it moves its arguments to
    where the kernel wants them, with no timeout as the fourth, and returns what the kernel returns.
    """

    pause: tuple[str, tuple[int, ...]]
    clock: str
    futex_number: int
    futex_code: bytes


_FAMILIES = {
    "x86_64": _Family(
        pause=("x86.sse2.pause", ()),
        clock="x86.rdtsc",
        futex_number=202,
        futex_code=bytes.fromhex(
            "4889f8"  # mov rax, rdi
            "4889f7"  # mov rdi, rsi
            "4889d6"  # mov rsi, rdx
            "4889ca"  # mov rdx, rcx
            "4531d2"  # xor r10d, r10d
            "0f05"  # syscall
            "c3"  # ret
        ),
    ),
    "aarch64": _Family(
        # `yield` does nothing on most cores; `isb` drains the pipeline and so gives way.
        pause=("aarch64.isb", (15,)),
        clock="readsteadycounter",
        futex_number=98,
        futex_code=bytes.fromhex(
            "e80300aa"  # mov x8, x0
            "e00301aa"  # mov x0, x1
            "e10302aa"  # mov x1, x2
            "e20303aa"  # mov x2, x3
            "030080d2"  # mov x3, #0
            "010000d4"  # svc #0
            "c0035fd6"  # ret
        ),
    ),
}


def atomic_load(f: Function, pointer: Val, type_: Type, order: Order = "acquire") -> Val:
    """Load an integer or pointer atomically."""
    return f.emit(f"load atomic {type_}, {pointer} {order}, align {type_.nbytes}", type_)


def atomic_store(f: Function, value: Val, pointer: Val, order: Order = "release") -> None:
    """Store an integer or pointer atomically."""
    f.emit_void(f"store atomic {value}, {pointer} {order}, align {value.type.nbytes}")


def atomic_update(
    f: Function, operation: Literal["xchg", "add", "sub"], pointer: Val, value: Val
) -> Val:
    """Read, modify and write in the one order that all threads agree on; gives the old value."""
    return f.emit(f"atomicrmw {operation} {pointer}, {value} seq_cst", value.type)


def compare_and_swap(f: Function, pointer: Val, expected: Val, wanted: Val) -> Val:
    """Store `wanted` where `expected` is found; whether it was. Orders no other memory."""
    pair = Type(f"{{ {expected.type}, i1 }}", 0)
    found = f.emit(f"cmpxchg {pointer}, {expected}, {wanted} monotonic monotonic", pair)
    return f.emit(f"extractvalue {found}, 1", I1)


def pause(f: Function, isa: Isa) -> None:
    """Tell the processor that this is a spin loop."""
    name, arguments = _FAMILIES[isa.machine].pause
    f.intrinsic(name, VOID, [f.const(I32, a) for a in arguments])


def clock(f: Function, isa: Isa) -> Val:
    """An i64 that counts at a constant rate: the time stamp counter, or the generic timer."""
    return f.intrinsic(_FAMILIES[isa.machine].clock, I64, [])


def define_futex(module: Module, isa: Isa) -> None:
    """Define the system call that `futex_wait` and `futex_wake` make."""
    params = [("number", I64), ("word", PTR), ("operation", I64), ("value", I64)]
    code = _FAMILIES[isa.machine].futex_code
    text = "".join(f"\\{byte:02X}" for byte in code)
    # Prologue data stands at the function's address; it returns, so the body is never reached.
    attributes = f'nounwind noinline prologue [{len(code)} x i8] c"{text}"'
    module.function(_FUTEX, params, I64, attributes=attributes).ret(0)


def futex_wait(f: Function, isa: Isa, word: Val, expected: Val) -> None:
    """Sleep while the i32 at `word` is `expected`; may also return for no reason."""
    _futex(f, isa, word, _FUTEX_WAIT_PRIVATE, expected)


def futex_wake(f: Function, isa: Isa, word: Val) -> None:
    """Wake every thread that sleeps on `word`."""
    _futex(f, isa, word, _FUTEX_WAKE_PRIVATE, f.const(I32, _EVERY_WAITER))


def _futex(f: Function, isa: Isa, word: Val, operation: int, value: Val) -> None:
    number = f.const(I64, _FAMILIES[isa.machine].futex_number)
    f.call(f'@"{_FUTEX}"', I64, [number, word, f.const(I64, operation), value.zext(I64)])
