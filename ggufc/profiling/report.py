"""A profile as rows for people and programs: each op beside its bound, kernels as sums of their
ops, and what the whole graph reaches."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ggufc.backends.llvm.isa import isa_named
from ggufc.compiler.costs import Cost
from ggufc.ir import Op, View, Weight
from ggufc.profiling.bounds import Bound, Bounds, unit_of
from ggufc.profiling.limits import Limits
from ggufc.profiling.profile import GraphProfile, OpProfile


@dataclass(frozen=True)
class Row:
    """One op, or all ops of one kernel: how often it runs in a call, its time in the run, what it
    cost, and its bound, named after what decides most of it."""

    name: str
    kernel: str
    count: int
    seconds: float
    cost: Cost
    bound: Bound

    @property
    def share(self) -> float:
        """The part of the bound that was reached; 1 is as fast as the machine can be."""
        return self.bound.seconds / self.seconds if self.seconds else 0.0


def kernel_name(op: Op) -> str:
    """What ops that run the same code have in common: the op, and its weights' types and sizes."""
    weights = [w for w in op.weights() if len(w.type.shape) > 1]
    if not weights:
        return op.name
    rows = "+".join(str(w.type.max_shape[-2]) for w in weights)
    types = "+".join(dict.fromkeys(weight_type(w) for w in weights))
    experts = "".join(f"{w.type.max_shape[0]}x" for w in weights[:1] if len(w.type.shape) == 3)
    return f"{op.name} {types} {experts}{rows}x{weights[0].type.max_shape[-1]}"


def weight_type(weight: Weight) -> str:
    """The type that a weight is stored in."""
    return weight.type.dtype.name


def op_rows(profile: GraphProfile, bounds: Bounds) -> list[Row]:
    """A row for each op that does something, the slowest first."""
    rows = (op_row(found, bounds) for found in profile.ops if not found.op.definition.has(View))
    return slowest_first(rows)


def op_row(found: OpProfile, bounds: Bounds) -> Row:
    """The row of one op."""
    bound = bounds.of(found.op, found.cost)
    return Row(found.name, kernel_name(found.op), 1, found.seconds, found.cost, bound)


def kernel_rows(rows: Iterable[Row]) -> list[Row]:
    """The rows of ops that run the same code as one, the slowest first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.kernel, []).append(row)
    return slowest_first(total_row(kernel, group) for kernel, group in groups.items())


def slowest_first(rows: Iterable[Row]) -> list[Row]:
    """Rows by time."""
    return sorted(rows, key=lambda row: (-row.seconds, row.name))


def total_row(name: str, rows: list[Row]) -> Row:
    """The sum of rows, of which there is at least one."""
    deciding: dict[str, float] = defaultdict(float)
    for row in rows:
        deciding[row.bound.name] += row.bound.seconds
    return Row(
        name,
        name,
        sum(row.count for row in rows),
        sum(row.seconds for row in rows),
        sum((row.cost for row in rows), Cost()),
        Bound(max(deciding, key=lambda key: deciding[key]), sum(deciding.values())),
    )


@dataclass(frozen=True)
class Summary:
    """What a whole run reaches: weight bytes per second of what the pages of the weights allow, and
    operations per second of what the unit allows that most of them run on."""

    weight_bytes_s: float
    read_limit: float
    pages: str
    operations_s: float
    operations_limit: float
    unit: str

    @property
    def read_share(self) -> float:
        """Weight bytes per second over the limit."""
        return self.weight_bytes_s / self.read_limit

    @property
    def operations_share(self) -> float:
        """Operations per second over the limit."""
        return self.operations_s / self.operations_limit


def summary(profile: GraphProfile, bounds: Bounds) -> Summary:
    """The whole run, its calls included."""
    isa, operations = isa_named(bounds.limits.isa), Counter[str]()
    for found in profile.ops:
        operations[unit_of(found.op, isa)] += found.cost.flops
    unit = max(operations, key=lambda name: operations[name])
    total = sum((found.cost for found in profile.ops), Cost())
    return Summary(
        total.weight_bytes / profile.seconds,
        bounds.limits.read[bounds.pages],
        bounds.pages,
        total.flops / profile.seconds,
        bounds.limits.operations[unit],
        unit,
    )


def as_json(profile: GraphProfile, bounds: Bounds) -> dict[str, Any]:
    """The profile of a graph as plain data; times and amounts are those of the whole run."""
    rows = op_rows(profile, bounds)
    found = summary(profile, bounds)
    return {
        "tokens": profile.tokens,
        "calls": profile.calls,
        "seconds": profile.seconds,
        "total": row_data(total_row("total", rows)),
        "reached": {
            **asdict(found),
            "read_share": found.read_share,
            "operations_share": found.operations_share,
        },
        "kernels": [row_data(row) for row in kernel_rows(rows)],
        "ops": [row_data(row) for row in rows],
    }


def row_data(row: Row) -> dict[str, Any]:
    """A row as plain data."""
    return {
        "name": row.name,
        "kernel": row.kernel,
        "count": row.count,
        "seconds": row.seconds,
        "flops": row.cost.flops,
        "weight_bytes": row.cost.weight_bytes,
        "state_bytes": row.cost.state_bytes,
        "value_bytes": row.cost.value_bytes,
        "bound": row.bound.name,
        "bound_seconds": row.bound.seconds,
        "share": row.share,
    }


def limits_data(limits: Limits) -> dict[str, Any]:
    """The limits as plain data: bytes and operations per second."""
    return asdict(limits)


HEADINGS = ("kernel", "ops", "ms", "time", "MB", "GB/s", "GOP", "GOP/s", "bound by", "reached")


def cells(row: Row, calls: int, whole: float) -> Iterator[str]:
    """A row of the table for people, for one call of the graph."""
    moved, seconds = row.cost.bytes, row.seconds or float("inf")
    yield row.name
    yield str(row.count)
    yield f"{row.seconds / calls * 1e3:.3f}"
    yield f"{row.seconds / whole:.1%}" if whole else "-"
    yield f"{moved / calls / 1e6:.2f}"
    yield f"{moved / seconds / 1e9:.1f}"
    yield f"{row.cost.flops / calls / 1e9:.3f}"
    yield f"{row.cost.flops / seconds / 1e9:.1f}"
    yield row.bound.name
    yield f"{row.share:.1%}"
