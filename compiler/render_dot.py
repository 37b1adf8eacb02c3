"""A program as a graph for Graphviz: `dot -Tsvg`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ggufc.ir import Function, Module, Op, State, Value, Weight, format_name


def render_dot(module: Module) -> str:
    """A cluster a function: boxes are ops with their weights, cylinders states, ellipses inputs."""
    lines = [f"digraph {json.dumps(module.name)} {{", '  node [shape=box, fontname="monospace"];']
    for name, function in module.functions.items():
        lines += [
            f"  subgraph {json.dumps('cluster_' + name)} {{",
            f"    label={json.dumps(name)};",
        ]
        lines += [f"    {line}" for line in _Cluster(function).lines()]
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


class _Cluster:
    """The nodes and edges of one function."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._numbers = {op: number for number, op in enumerate(function.ops)}

    def lines(self) -> Iterator[str]:
        """Inputs and states, then each op with the edges that lead to it, then the return."""
        for value in self._function.inputs:
            yield f"{self._node(value)} [shape=ellipse, label={_label(_typed(value))}];"
        for state in dict.fromkeys(s for op in self._function.ops for s in op.states()):
            yield f"{self._node(state)} [shape=cylinder, label={_label(format_name(state))}];"
        for op in self._function.ops:
            yield f"{self._node(op)} [label={_label(*_describe(op))}];"
            yield from self._edges(op)
        yield f'"{self._function.name} return" [shape=ellipse, label="return"];'
        for value in self._function.outputs:
            yield f'{self._node(value)} -> "{self._function.name} return";'

    def _edges(self, op: Op) -> Iterator[str]:
        for value in dict.fromkeys(op.values()):
            yield f"{self._node(value)} -> {self._node(op)};"
        for state in op.states():
            if op.definition.is_removable:
                yield f"{self._node(state)} -> {self._node(op)} [style=dashed];"
            else:
                yield f"{self._node(op)} -> {self._node(state)} [style=dashed];"

    def _node(self, thing: Value | State | Op) -> str:
        """A name for a node; a value's is that of the op that makes it."""
        owner = thing.op if isinstance(thing, Value) and thing.op is not None else thing
        name = str(self._numbers[owner]) if isinstance(owner, Op) else format_name(owner)
        return json.dumps(f"{self._function.name} {name}")


def _describe(op: Op) -> Iterator[str]:
    """The lines of an op's box: name, results, weights."""
    yield op.name
    for result in op.results:
        yield _typed(result)
    for weight in op.weights():
        yield _typed(weight)


def _typed(leaf: Value | Weight) -> str:
    shape = ", ".join(getattr(dim, "name", str(dim)) for dim in leaf.type.shape)
    return f"{format_name(leaf)} : {leaf.type.dtype}[{shape}]"


def _label(*lines: str) -> str:
    # json.dumps makes the line breaks \n and escapes quotes just as Graphviz wants them.
    return json.dumps("\n".join(lines), ensure_ascii=False)
