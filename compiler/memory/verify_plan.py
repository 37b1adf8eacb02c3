"""The independent check of a memory plan, run on every compile; no code of the planner is used.

It plays the function on a map of the memory: an op's result claims its bytes, which ends the claim
of whatever lay there; an op may only read values whose claim still stands.
"""

from __future__ import annotations

from ggufc.compiler.errors import CompileError
from ggufc.ir import Buffer, Function, InPlace, Op, Value, View

ALIGNMENT = 64
ARENA, LOGITS = "arena", "logits"


class PlanError(CompileError):
    """A memory plan that would let a value be overwritten, misplaced or cut off."""


def verify_plan(function: Function, arena_bytes: int) -> None:
    """Check every buffer of a planned function; a PlanError names the op, the value and the bytes.

    Buffers must be present, aligned, large enough and inside their space; the caller's values have
    none; a view lies on its operand; nothing is read after it was overwritten; a result may lie on
    an operand of its op only where the op declares it.
    """
    _Checker(function, arena_bytes).check()


class _Checker:
    """The memory while a function runs.

    `source` follows a view back to the value that was written; `claims` has the place of every
    value whose bytes are intact; `lost` tells which op overwrote the others.
    """

    def __init__(self, function: Function, arena_bytes: int) -> None:
        self.function = function
        self.arena_bytes = arena_bytes
        self.source: dict[Value, Value] = {}
        self.claims: dict[Value, Buffer] = {}
        self.lost: dict[Value, Op] = {}
        self.where = f"plan of '{function.name}'"

    def check(self) -> None:
        """Run all ops, then look at what is returned."""
        for value in (*self.function.inputs, *self.function.outputs):
            if value.buffer is not None:
                raise PlanError(f"{self.where}: %{value.name} is the caller's but has a buffer")
        self._follow_views()
        returned = {self.source[value] for value in self.function.outputs}
        for position, op in enumerate(self.function.ops):
            self.where = f"plan of '{self.function.name}': op {position} ({op.name})"
            for value in op.values():
                self._check_intact(value)
            for result in op.results:
                if self.source[result] is result:
                    self._claim(op, result, self._place(result, returned))
        self.where = f"plan of '{self.function.name}': the return"
        for value in self.function.outputs:
            self._check_intact(value)

    def _follow_views(self) -> None:
        for value in self.function.values():
            trait = value.op.definition.trait(View) if value.op is not None else None
            if value.op is None or trait is None:
                self.source[value] = value
                continue
            operand = value.op.value(trait.operand)
            if operand.buffer != value.buffer:
                what = f"a view but not in the buffer of %{operand.name}"
                raise PlanError(f"{self.where}: %{value.name} is {what}")
            self.source[value] = self.source[operand]

    def _check_intact(self, value: Value) -> None:
        overwriting = self.lost.get(self.source[value])
        if overwriting is not None:
            raise PlanError(
                f"{self.where} reads %{value.name}, which {overwriting!r} has overwritten"
            )

    def _place(self, value: Value, returned: set[Value]) -> Buffer:
        """Where the value lies: its buffer, once checked, or the caller's memory."""
        if value in returned:
            return Buffer(LOGITS, 0, value.type.max_bytes)
        buffer, where = value.buffer, f"{self.where}: %{value.name}"
        if buffer is None:
            raise PlanError(f"{where} has no buffer")
        if buffer.offset < 0 or buffer.offset % ALIGNMENT:
            raise PlanError(f"{where} is at {buffer.offset}, not a multiple of {ALIGNMENT}")
        if buffer.nbytes < value.type.max_bytes:
            raise PlanError(f"{where} has {buffer.nbytes} bytes; {value.type.max_bytes} are needed")
        if buffer.space == ARENA:
            self._check_end(where, buffer, self.arena_bytes)
        elif buffer.space != LOGITS or value.type not in {v.type for v in returned}:
            raise PlanError(f"{where} is in '{buffer.space}', where only what is returned may be")
        return buffer

    def _check_end(self, where: str, buffer: Buffer, limit: int) -> None:
        if buffer.offset + buffer.nbytes > limit:
            end = buffer.offset + buffer.nbytes
            raise PlanError(f"{where} ends at {end}, beyond the arena of {limit} bytes")

    def _claim(self, op: Op, result: Value, place: Buffer) -> None:
        """Let the result own its bytes; end the claims of the values that lie on them."""
        for value, claimed in list(self.claims.items()):
            if _overlap(claimed, place):
                self._check_overwrite(op, value, result, claimed == place)
                self.lost[value] = op
                del self.claims[value]
        self.claims[result] = place

    def _check_overwrite(self, op: Op, old: Value, result: Value, same_place: bool) -> None:
        """Overwriting what the op reads needs its permission and the same place."""
        readers = [name for name in op.operands if self._reads(op, name, old)]
        if old not in op.results and not readers:
            return
        allowed = {trait.operand for trait in op.definition.traits if isinstance(trait, InPlace)}
        if not (readers and allowed.issuperset(readers) and same_place):
            raise PlanError(
                f"{self.where}: %{result.name} overlaps %{old.name}, which the op "
                f"{'reads' if readers else 'writes'}"
            )

    def _reads(self, op: Op, name: str, old: Value) -> bool:
        operand = op.operands[name]
        group = operand if isinstance(operand, tuple) else (operand,)
        return any(isinstance(leaf, Value) and self.source[leaf] is old for leaf in group)


def _overlap(a: Buffer, b: Buffer) -> bool:
    return a.space == b.space and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
