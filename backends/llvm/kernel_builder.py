"""The layer in which kernels are written: typed SSA values over textual LLVM IR.

Everything that llvmlite's own builder lacks (vector intrinsics, byte-addressed pointers, loops as
`with` blocks) is here, so that kernels read like loops:

    with f.loop(K // 4) as i:
        w = f.load(weights + i * 64, vec(I8, 64))
        acc.set(acc.get() + ...)

Mutable variables are allocas, which the `sroa` pass turns into registers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class Type:
    """An LLVM type: a scalar, or a vector of `lanes` scalars; `lanes` is 0 for a scalar."""

    scalar: str
    bits: int
    lanes: int = 0

    @property
    def element(self) -> Type:
        return Type(self.scalar, self.bits)

    @property
    def is_float(self) -> bool:
        return self.scalar in _FLOATS

    @property
    def nbytes(self) -> int:
        return max(1, self.bits // 8) * max(1, self.lanes)

    def __str__(self) -> str:
        return f"<{self.lanes} x {self.scalar}>" if self.lanes else self.scalar

    @property
    def mangled(self) -> str:
        """The suffix that names this type in an overloaded intrinsic, e.g. `v16f32`."""
        scalar = {"ptr": "p0"}.get(self.scalar) or _FLOATS.get(self.scalar) or self.scalar
        return f"v{self.lanes}{scalar}" if self.lanes else scalar


_FLOATS = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}

VOID = Type("void", 0)
I1, I8, I16, I32, I64 = (Type(f"i{n}", n) for n in (1, 8, 16, 32, 64))
F16, BF16, F32, F64 = Type("half", 16), Type("bfloat", 16), Type("float", 32), Type("double", 64)
PTR = Type("ptr", 64)

Operand = Union["Val", int, float]


def vec(element: Type, lanes: int) -> Type:
    """The vector type of `lanes` elements."""
    return Type(element.scalar, element.bits, lanes)


def literal(type_: Type, value: float) -> str:
    """An LLVM literal of a scalar type; floats are rounded to the type and written as bits."""
    if type_ == I1:
        return "true" if value else "false"
    if not type_.is_float:
        return str(int(value))
    if type_ == F32:
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    elif type_ == F16:
        return "0xH" + struct.pack(">e", value).hex().upper()
    elif type_ == BF16:
        return "0xR" + struct.pack(">f", value).hex().upper()[:4]
    return "0x" + struct.pack(">d", value).hex().upper()


class Val:
    """An SSA value of a function under construction. Operators emit instructions.

    Integer arithmetic wraps; `>>` is a logical shift, comparisons are signed. An int or float
    operand becomes a (splat) constant of this value's type. Adding to a pointer moves it by bytes.
    """

    __slots__ = ("f", "ref", "type")

    def __init__(self, f: Function, ref: str, type_: Type) -> None:
        self.f, self.ref, self.type = f, ref, type_

    def __str__(self) -> str:
        return f"{self.type} {self.ref}"

    def _binary(self, int_op: str, float_op: str, other: Operand, swap: bool = False) -> Val:
        if self.type == PTR:
            raise TypeError("pointers only take + bytes")
        a, b = self, self.f.coerce(other, self.type)
        if swap:
            a, b = b, a
        op = float_op if self.type.is_float else int_op
        return self.f.emit(f"{op} {a.type} {a.ref}, {b.ref}", self.type)

    def __add__(self, other: Operand) -> Val:
        if self.type == PTR:
            return self.f.offset(self, other)
        return self._binary("add", "fadd", other)

    def __radd__(self, other: Operand) -> Val:
        return self + other

    def __sub__(self, other: Operand) -> Val:
        return self._binary("sub", "fsub", other)

    def __rsub__(self, other: Operand) -> Val:
        return self._binary("sub", "fsub", other, swap=True)

    def __mul__(self, other: Operand) -> Val:
        return self._binary("mul", "fmul", other)

    def __rmul__(self, other: Operand) -> Val:
        return self * other

    def __truediv__(self, other: Operand) -> Val:
        return self._binary("sdiv", "fdiv", other)

    def __rtruediv__(self, other: Operand) -> Val:
        return self._binary("sdiv", "fdiv", other, swap=True)

    def __floordiv__(self, other: Operand) -> Val:
        """Unsigned integer division."""
        return self._binary("udiv", "fdiv", other)

    def __mod__(self, other: Operand) -> Val:
        """Unsigned integer remainder."""
        return self._binary("urem", "frem", other)

    def __and__(self, other: Operand) -> Val:
        return self._binary("and", "and", other)

    def __or__(self, other: Operand) -> Val:
        return self._binary("or", "or", other)

    def __xor__(self, other: Operand) -> Val:
        return self._binary("xor", "xor", other)

    def __lshift__(self, other: Operand) -> Val:
        return self._binary("shl", "shl", other)

    def __rshift__(self, other: Operand) -> Val:
        return self._binary("lshr", "lshr", other)

    def ashr(self, other: Operand) -> Val:
        """Arithmetic shift right."""
        return self._binary("ashr", "ashr", other)

    def __neg__(self) -> Val:
        if self.type.is_float:
            return self.f.emit(f"fneg {self}", self.type)
        return self.f.const(self.type, 0) - self

    def _compare(self, int_op: str, float_op: str, other: Operand) -> Val:
        b = self.f.coerce(other, self.type)
        op = f"fcmp {float_op}" if self.type.is_float else f"icmp {int_op}"
        result = Type("i1", 1, self.type.lanes)
        return self.f.emit(f"{op} {self.type} {self.ref}, {b.ref}", result)

    def eq(self, other: Operand) -> Val:
        return self._compare("eq", "oeq", other)

    def ne(self, other: Operand) -> Val:
        return self._compare("ne", "une", other)

    def __lt__(self, other: Operand) -> Val:
        return self._compare("slt", "olt", other)

    def __le__(self, other: Operand) -> Val:
        return self._compare("sle", "ole", other)

    def __gt__(self, other: Operand) -> Val:
        return self._compare("sgt", "ogt", other)

    def __ge__(self, other: Operand) -> Val:
        return self._compare("sge", "oge", other)

    def ult(self, other: Operand) -> Val:
        """Unsigned less than."""
        return self._compare("ult", "olt", other)

    def _convert(self, op: str, element: Type) -> Val:
        to = Type(element.scalar, element.bits, self.type.lanes)
        return self if to == self.type else self.f.emit(f"{op} {self} to {to}", to)

    def zext(self, element: Type) -> Val:
        return self._convert("zext", element)

    def sext(self, element: Type) -> Val:
        return self._convert("sext", element)

    def trunc(self, element: Type) -> Val:
        return self._convert("trunc", element)

    def sitofp(self, element: Type = F32) -> Val:
        return self._convert("sitofp", element)

    def uitofp(self, element: Type = F32) -> Val:
        return self._convert("uitofp", element)

    def fptosi(self, element: Type = I32) -> Val:
        return self._convert("fptosi", element)

    def fpext(self, element: Type = F32) -> Val:
        return self._convert("fpext", element)

    def fptrunc(self, element: Type) -> Val:
        return self._convert("fptrunc", element)

    def bitcast(self, type_: Type) -> Val:
        """The same bits as another type of the same total width."""
        if type_ == self.type:
            return self
        return self.f.emit(f"bitcast {self} to {type_}", type_)

    def splat(self, lanes: int) -> Val:
        """A vector with this scalar in every lane."""
        return self.f.splat(self, lanes)

    def lane(self, index: Operand) -> Val:
        """One element of a vector."""
        i = self.f.coerce(index, I64)
        return self.f.emit(f"extractelement {self}, {i}", self.type.element)

    def with_lane(self, index: Operand, value: Operand) -> Val:
        """This vector with one element replaced."""
        i, v = self.f.coerce(index, I64), self.f.coerce(value, self.type.element)
        return self.f.emit(f"insertelement {self}, {v}, {i}", self.type)


class Var:
    """A mutable variable; `get` and `set` become registers after sroa."""

    def __init__(self, f: Function, type_: Type, slot: Val) -> None:
        self._f, self.type, self._slot = f, type_, slot

    def get(self) -> Val:
        return self._f.load(self._slot, self.type)

    def set(self, value: Operand) -> None:
        self._f.store(self._f.coerce(value, self.type), self._slot)


class Module:
    """A module under construction: globals, declarations and functions, printed in that order."""

    def __init__(self, name: str, triple: str = "", data_layout: str = "") -> None:
        self.name, self.triple, self.data_layout = name, triple, data_layout
        self.functions: dict[str, Function] = {}
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}

    def function(
        self,
        name: str,
        params: Sequence[tuple[str, Type]],
        returns: Type = VOID,
        *,
        exported: bool = False,
        attributes: str = "nounwind",
    ) -> Function:
        """Start a function; internal unless exported."""
        if name in self.functions:
            raise ValueError(f"function {name!r} is defined twice")
        f = Function(self, name, params, returns, exported, attributes)
        self.functions[name] = f
        return f

    def declare(self, name: str, returns: Type, params: Sequence[Type]) -> str:
        """Declare an external function or intrinsic once; returns its reference."""
        args = ", ".join(str(p) for p in params)
        self._declarations.setdefault(name, f'declare {returns} @"{name}"({args})')
        return f'@"{name}"'

    def constant(self, name: str, data: bytes, align: int = 64) -> str:
        """A private read-only global of bytes; returns its reference (a pointer)."""
        text = "".join(f"\\{b:02X}" for b in data)
        self._globals.setdefault(
            name,
            f'@"{name}" = private unnamed_addr constant '
            f'[{len(data)} x i8] c"{text}", align {align}',
        )
        return f'@"{name}"'

    def text(self) -> str:
        """The whole module as LLVM IR."""
        head = [f'; ModuleID = "{self.name}"', f'source_filename = "{self.name}"']
        if self.data_layout:
            head.append(f'target datalayout = "{self.data_layout}"')
        if self.triple:
            head.append(f'target triple = "{self.triple}"')
        parts = head + list(self._globals.values()) + list(self._declarations.values())
        return "\n".join(parts + [f.text() for f in self.functions.values()]) + "\n"


class Function:
    """A function under construction; instructions go to the current block."""

    def __init__(
        self,
        module: Module,
        name: str,
        params: Sequence[tuple[str, Type]],
        returns: Type,
        exported: bool,
        attributes: str,
    ) -> None:
        self.module, self.name, self.returns = module, name, returns
        self.params, self._exported, self._attributes = list(params), exported, attributes
        self._allocas: list[str] = []
        self._lines: list[str] = []
        self._counter = 0
        self._labels: dict[str, int] = {}
        self._block = "entry"
        self._terminated = False

    # -- naming and raw emission ------------------------------------------------------------------

    def arg(self, name: str) -> Val:
        """A parameter by its name."""
        for param, type_ in self.params:
            if param == name:
                return Val(self, f"%{param}", type_)
        raise KeyError(f"{self.name} has no parameter {name!r}")

    def fresh(self) -> str:
        self._counter += 1
        return f"%v{self._counter}"

    def label(self, hint: str) -> str:
        self._labels[hint] = self._labels.get(hint, 0) + 1
        return f"{hint}.{self._labels[hint]}"

    def emit(self, instruction: str, type_: Type) -> Val:
        """Append an instruction that yields a value."""
        ref = self.fresh()
        self._lines.append(f"  {ref} = {instruction}")
        return Val(self, ref, type_)

    def emit_void(self, instruction: str) -> None:
        self._lines.append(f"  {instruction}")

    def start_block(self, label: str) -> None:
        """Begin a block; falls through from the current one where that has no terminator."""
        if not self._terminated:
            self.emit_void(f"br label %{label}")
        self._lines.append(f"{label}:")
        self._block, self._terminated = label, False

    def branch(self, label: str) -> None:
        self.emit_void(f"br label %{label}")
        self._terminated = True

    def branch_if(self, condition: Val, then: str, otherwise: str) -> None:
        self.emit_void(f"br {condition}, label %{then}, label %{otherwise}")
        self._terminated = True

    def ret(self, value: Operand | None = None) -> None:
        if value is None:
            self.emit_void("ret void")
        else:
            self.emit_void(f"ret {self.coerce(value, self.returns)}")
        self._terminated = True

    # -- constants and vectors --------------------------------------------------------------------

    def const(self, type_: Type, value: float) -> Val:
        """A constant; the same value in every lane of a vector."""
        text = literal(type_.element, value)
        if type_.lanes:
            text = f"splat ({type_.element} {text})"
        return Val(self, text, type_)

    def const_lanes(self, element: Type, values: Sequence[float]) -> Val:
        """A constant vector with its own value in each lane."""
        items = ", ".join(f"{element} {literal(element, v)}" for v in values)
        return Val(self, f"<{items}>", vec(element, len(values)))

    def null(self) -> Val:
        return Val(self, "null", PTR)

    def poison(self, type_: Type) -> Val:
        return Val(self, "poison", type_)

    def coerce(self, value: Operand, type_: Type) -> Val:
        """An operand as a value of the type: numbers become constants, scalars become splats."""
        if not isinstance(value, Val):
            return self.const(type_, value)
        if value.type == type_:
            return value
        if type_.lanes and value.type == type_.element:
            return self.splat(value, type_.lanes)
        raise TypeError(f"{self.name}: expected {type_}, got {value.type}")

    def splat(self, value: Val, lanes: int) -> Val:
        to = vec(value.type, lanes)
        one = self.emit(f"insertelement {to} poison, {value}, i64 0", to)
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emit(f"shufflevector {one}, {to} poison, {zeros}", to)

    def shuffle(self, a: Val, b: Val | None, mask: Sequence[int]) -> Val:
        """Lanes of a (0..n-1) and b (n..2n-1) by index; -1 leaves a lane undefined."""
        other = b.ref if b is not None else "poison"
        indices = ", ".join(f"i32 {i}" if i >= 0 else "i32 poison" for i in mask)
        to = vec(a.type.element, len(mask))
        return self.emit(
            f"shufflevector {a}, {a.type} {other}, <{len(mask)} x i32> <{indices}>", to
        )

    def select(self, condition: Val, then: Operand, otherwise: Operand) -> Val:
        """then where the condition holds; at least one of the two is a value."""
        type_ = then.type if isinstance(then, Val) else _type_of(otherwise)
        a, b = self.coerce(then, type_), self.coerce(otherwise, type_)
        return self.emit(f"select {condition}, {a}, {b}", type_)

    # -- memory -----------------------------------------------------------------------------------

    def offset(self, pointer: Val, nbytes: Operand) -> Val:
        if isinstance(nbytes, int) and nbytes == 0:
            return pointer
        n = self.coerce(nbytes, I64)
        return self.emit(f"getelementptr inbounds i8, {pointer}, {n}", PTR)

    def load(
        self,
        pointer: Val,
        type_: Type,
        offset: Operand = 0,
        *,
        align: int | None = None,
        nontemporal: bool = False,
    ) -> Val:
        """Load a value at pointer + offset bytes; aligned to the element unless said otherwise."""
        at = self.offset(pointer, offset)
        tail = ", !nontemporal !{i32 1}" if nontemporal else ""
        return self.emit(f"load {type_}, {at}, align {align or _natural(type_)}{tail}", type_)

    def store(
        self, value: Val, pointer: Val, offset: Operand = 0, *, align: int | None = None
    ) -> None:
        at = self.offset(pointer, offset)
        self.emit_void(f"store {value}, {at}, align {align or _natural(value.type)}")

    def masked_load(self, pointer: Val, type_: Type, mask: Val, offset: Operand = 0) -> Val:
        """Lanes where the mask holds; zero elsewhere, and memory there is not touched."""
        at = self.offset(pointer, offset)
        name = f"llvm.masked.load.{type_.mangled}.p0"
        zero = self.const(type_, 0)
        fn = self.module.declare(name, type_, (PTR, I32, mask.type, type_))
        args = f"{at}, i32 {_natural(type_)}, {mask}, {zero}"
        return self.emit(f"call {type_} {fn}({args})", type_)

    def masked_store(self, value: Val, pointer: Val, mask: Val, offset: Operand = 0) -> None:
        at = self.offset(pointer, offset)
        name = f"llvm.masked.store.{value.type.mangled}.p0"
        fn = self.module.declare(name, VOID, (value.type, PTR, I32, mask.type))
        self.emit_void(f"call void {fn}({value}, {at}, i32 {_natural(value.type)}, {mask})")

    def prefetch(self, pointer: Val, offset: Operand = 0, locality: int = 3) -> None:
        """Ask for the cache line at pointer + offset for reading."""
        at = self.offset(pointer, offset)
        fn = self.module.declare("llvm.prefetch.p0", VOID, (PTR, I32, I32, I32))
        self.emit_void(f"call void {fn}({at}, i32 0, i32 {locality}, i32 1)")

    def alloca(self, nbytes: int, align: int = 64) -> Val:
        """Stack memory for the life of the function."""
        ref = self.fresh()
        self._allocas.append(f"  {ref} = alloca [{nbytes} x i8], align {align}")
        return Val(self, ref, PTR)

    def var(self, type_: Type, initial: Operand | None = None) -> Var:
        """A mutable variable."""
        ref = self.fresh()
        self._allocas.append(f"  {ref} = alloca {type_}")
        variable = Var(self, type_, Val(self, ref, PTR))
        if initial is not None:
            variable.set(initial)
        return variable

    # -- calls ------------------------------------------------------------------------------------

    def call(self, callee: str, returns: Type, args: Sequence[Val]) -> Val:
        """Call a reference as `Module.declare` or `ref` gives it."""
        text = f"call {returns} {callee}({', '.join(str(a) for a in args)})"
        if returns == VOID:
            self.emit_void(text)
            return Val(self, "", VOID)
        return self.emit(text, returns)

    @property
    def ref(self) -> str:
        """How other functions call this one."""
        return f'@"{self.name}"'

    def intrinsic(
        self, name: str, returns: Type, args: Sequence[Val], overload: Sequence[Type] = ()
    ) -> Val:
        """Call `llvm.<name>`, mangled with the overloaded types."""
        full = ".".join(["llvm", name, *(t.mangled for t in overload)])
        callee = self.module.declare(full, returns, [a.type for a in args])
        return self.call(callee, returns, args)

    def _math(self, name: str, first: Val, *rest: Operand) -> Val:
        args = [first, *(self.coerce(r, first.type) for r in rest)]
        return self.intrinsic(name, first.type, args, (first.type,))

    def fma(self, a: Val, b: Operand, c: Operand) -> Val:
        """a * b + c, rounded once."""
        return self._math("fma", a, b, c)

    def fabs(self, x: Val) -> Val:
        return self._math("fabs", x)

    def sqrt(self, x: Val) -> Val:
        return self._math("sqrt", x)

    def round_even(self, x: Val) -> Val:
        """To the nearest integer, ties to even."""
        return self._math("roundeven", x)

    def fmax(self, a: Val, b: Operand) -> Val:
        """The larger; b where a is NaN. One instruction on every target."""
        other = self.coerce(b, a.type)
        return self.select(a > other, a, other)

    def fmin(self, a: Val, b: Operand) -> Val:
        """The smaller; b where a is NaN."""
        other = self.coerce(b, a.type)
        return self.select(a < other, a, other)

    def smin(self, a: Val, b: Operand) -> Val:
        return self._math("smin", a, b)

    def smax(self, a: Val, b: Operand) -> Val:
        return self._math("smax", a, b)

    def reduce_add(self, x: Val) -> Val:
        """The sum of the lanes; floats pairwise, in a fixed order."""
        if not x.type.is_float:
            return self.intrinsic("vector.reduce.add", x.type.element, [x], (x.type,))
        return self._fold(x, lambda a, b: a + b)

    def reduce_max(self, x: Val) -> Val:
        """The largest lane of a float vector."""
        return self._fold(x, self.fmax)

    def _fold(self, x: Val, combine: Callable[[Val, Val], Val]) -> Val:
        while x.type.lanes > 1:
            half = x.type.lanes // 2
            low = self.shuffle(x, None, range(half))
            high = self.shuffle(x, None, range(half, 2 * half))
            x = combine(low, high)
        return x.lane(0)

    # -- control flow -----------------------------------------------------------------------------

    @contextmanager
    def loop(
        self, stop: Operand, start: Operand = 0, step: int = 1, name: str = "i"
    ) -> Iterator[Val]:
        """Count from start to stop (excluded) by step; no round at all where start >= stop."""
        pre, body, latch, done = (self.label(f"{name}.{part}") for part in _LOOP_PARTS)
        first, limit = self.coerce(start, I64), self.coerce(stop, I64)
        self.start_block(pre)
        if isinstance(start, int) and isinstance(stop, int) and start < stop:
            self.branch(body)
        else:
            self.branch_if(first < limit, body, done)
        self.start_block(body)
        following = f"%{body}.next"
        index = self.emit(f"phi i64 [ {first.ref}, %{pre} ], [ {following}, %{latch} ]", I64)
        yield index
        self.start_block(latch)
        self._lines.append(f"  {following} = add nuw nsw i64 {index.ref}, {step}")
        self.branch_if(Val(self, following, I64) < limit, body, done)
        self.start_block(done)

    @contextmanager
    def if_(self, condition: Val) -> Iterator[None]:
        """Run the body where the condition holds."""
        then, done = self.label("then"), self.label("endif")
        self.branch_if(condition, then, done)
        self.start_block(then)
        yield
        self.start_block(done)

    @contextmanager
    def while_(self, name: str = "while") -> Iterator[str]:
        """An endless loop; leave it with `branch_if(condition, then, <the yielded label>)`."""
        body, done = self.label(f"{name}.body"), self.label(f"{name}.done")
        self.start_block(body)
        yield done
        self.branch(body)
        self.start_block(done)

    def continue_unless(self, condition: Val, leave: str) -> None:
        """Within `while_`: leave where the condition holds, else go on."""
        go_on = self.label("go")
        self.branch_if(condition, leave, go_on)
        self.start_block(go_on)

    # -- printing ---------------------------------------------------------------------------------

    def text(self) -> str:
        linkage = "" if self._exported else "internal "
        params = ", ".join(f"{t} %{n}" for n, t in self.params)
        head = f"define {linkage}{self.returns} {self.ref}({params}) {self._attributes} {{"
        lines = list(self._lines)
        if not self._terminated:
            lines.append("  ret void")
        return "\n".join(["", head, "entry:", *self._allocas, *lines, "}"])


_LOOP_PARTS = ("pre", "body", "latch", "done")


def _natural(type_: Type) -> int:
    return max(1, type_.bits // 8)


def _type_of(value: Operand) -> Type:
    if not isinstance(value, Val):
        raise TypeError("select needs a value to take its type from")
    return value.type
