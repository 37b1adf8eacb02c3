"""From a template's syntax tree to Python: jinja2's generator, with marks and limits.

The code it writes differs from jinja2's own in this: strings of the template become marked
constants, nothing is computed while compiling, output, `~`, comparisons, slices, lists and loops
go through `ggufc.runtime.prompt.emitted`, and every block begins with a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame

from ggufc.runtime.prompt.limits import DEEPEST_NESTING

_NAMES = (
    "TemplateList, compare, compare_chain, constant, iterate, join_texts, made_dict, "
    "slice_of, text_of, tick"
)


class PromptCodeGenerator(CodeGenerator):
    """Writes the module of one template."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._constants: dict[str, str] = {}
        self._depth = 0

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        """Write one node, unless it is nested deeper than Python's own compiler is sure to
        take."""
        self._depth += 1
        if self._depth > DEEPEST_NESTING:
            self.fail(f"nested more than {DEEPEST_NESTING} deep", node.lineno)
        try:
            return super().visit(node, *args, **kwargs)
        finally:
            self._depth -= 1

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        self.writeline(f"from ggufc.runtime.prompt.emitted import {_NAMES}")
        super().visit_Template(node, frame)
        for text, name in self._constants.items():
            self.writeline(f"{name} = constant({text!r})")

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        self.writeline("tick()")
        super().blockvisit(nodes, frame)

    # Text

    def _constant(self, text: str) -> str:
        """The name of the constant that holds a string of the template."""
        return self._constants.setdefault(text, f"constant_{len(self._constants)}")

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:
        if isinstance(node.value, str):
            self.write(self._constant(node.value))
        else:
            super().visit_Const(node, frame)

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                self.simple_write(self._constant(child.data), frame)
                continue
            self.start_write(frame, child)
            self._write_call("text_of", child, frame)
            self.end_write(frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("join_texts((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    # Operations that cost

    def _write_call(self, function: str, argument: nodes.Node, frame: Frame) -> None:
        self.write(f"{function}(")
        self.visit(argument, frame)
        self.write(")")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        if len(node.ops) == 1:
            self.write(f"compare({node.ops[0].op!r}, ")
            self.visit(node.expr, frame)
            self.write(", ")
            self.visit(node.ops[0].expr, frame)
            self.write(")")
            return
        self.write("compare_chain(")
        self.visit(node.expr, frame)
        for operand in node.ops:
            self.write(f", {operand.op!r}, lambda: ")
            self.visit(operand.expr, frame)
        self.write(")")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("slice_of(")
        self.visit(node.node, frame)
        self.write(", slice(")
        for bound in (node.arg.start, node.arg.stop, node.arg.step):
            self.visit(bound or nodes.Const(None), frame)
            self.write(", ")
        self.write("))")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self.write("TemplateList(")
        super().visit_List(node, frame)
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self.write("made_dict((")
        for pair in node.items:
            self.write("(")
            self.visit(pair.key, frame)
            self.write(", ")
            self.visit(pair.value, frame)
            self.write("), ")
        self.write("))")

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        # jinja2 allows no new kinds of nodes: one that only extensions use stands for the call.
        node.iter = nodes.MarkSafe(node.iter, lineno=node.iter.lineno)
        super().visit_For(node, frame)

    def visit_MarkSafe(self, node: nodes.MarkSafe, frame: Frame) -> None:
        self._write_call("iterate", node.expr, frame)

    # What chat templates may not do

    def _refuse(self, what: str, node: nodes.Node) -> NoReturn:
        self.fail(f"chat templates may not use {{% {what} %}}", node.lineno)

    def visit_Include(self, node: nodes.Include, frame: Frame) -> None:
        self._refuse("include", node)

    def visit_Import(self, node: nodes.Import, frame: Frame) -> None:
        self._refuse("import", node)

    def visit_FromImport(self, node: nodes.FromImport, frame: Frame) -> None:
        self._refuse("from", node)

    def visit_Extends(self, node: nodes.Extends, frame: Frame) -> None:
        self._refuse("extends", node)

    def visit_ScopedEvalContextModifier(
        self, node: nodes.ScopedEvalContextModifier, frame: Frame
    ) -> None:
        self._refuse("autoescape", node)
