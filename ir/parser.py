"""Text -> Module; the inverse of `print_module`. `//` starts a comment that ends with the line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from ggufc.ir.core import (
    Buffer,
    Function,
    Leaf,
    Module,
    Op,
    Operand,
    Rows,
    Source,
    State,
    Value,
    Weight,
)
from ggufc.ir.errors import IRError, OperandError
from ggufc.ir.lexer import Token
from ggufc.ir.opdef import OPS, OpDef, OperandSpec
from ggufc.ir.token_stream import TokenStream, number
from ggufc.ir.types import Dim, Symbol, TensorType, dtype

_T = TypeVar("_T")
_WORD_VALUES = {"true": True, "false": False, "inf": math.inf, "nan": math.nan}


def parse_module(text: str) -> Module:
    """Read a module; a ParseError gives line, column, what was expected and what was found.

    The text is checked as far as the grammar goes; `verify` checks types and rules.
    """
    return _Parser(text).module()


class _Parser(TokenStream):
    """Recursive descent over the token list."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._symbols: dict[str, Symbol] = {}
        self._module = Module("")

    # -- module

    def module(self) -> Module:
        self._expect("module")
        self._module.name = self._kind("string", "the module's name in quotes").string()
        second = self._tokens[min(self._index + 2, len(self._tokens) - 1)]
        if self._at("{") and second.text == "=":
            self._module.attributes = self._attributes()
        self._expect("{")
        while not self._accept("}"):
            self._declaration()
        self._kind("end", "the end of the text")
        return self._module

    def _declaration(self) -> None:
        start = self._next
        if self._accept("weight"):
            weight = self._weight()
            self._declare(self._module.weights, weight.name, weight, start)
        elif self._accept("state"):
            name = self._name("$", "the state's name")
            self._expect(":")
            self._declare(self._module.states, name, State(name, self._type()), start)
        elif self._accept("func"):
            function = self._function()
            self._declare(self._module.functions, function.name, function, start)
        else:
            raise start.unexpected("'weight', 'state', 'func' or '}'")

    def _declare(self, table: dict[str, _T], name: str, item: _T, token: Token) -> None:
        if name in table:
            raise token.error(f"{token.text} {name} is declared twice")
        table[name] = item

    def _weight(self) -> Weight:
        name = self._name("@", "the weight's name")
        self._expect(":")
        weight = Weight(name, self._type())
        if self._accept("="):
            weight.data, weight.sources = self._hex(), ()
        elif self._accept("from"):
            self._expect("[")
            weight.sources = tuple(self._list(self._source, "]"))
        if self._accept("layout"):
            weight.layout = self._kind("word", "the layout's name").text
        if self._accept("at"):
            weight.offset, weight.nbytes = self._range()
        return weight

    def _source(self) -> Source:
        name = self._kind("string", "a tensor's name in quotes").string()
        if not self._accept("["):
            return name
        start, count = self._range()
        self._expect("]")
        return Rows(name, start, start + count)

    def _hex(self) -> bytes:
        self._expect("hex")
        token = self._kind("string", "hexadecimal digits in quotes")
        try:
            return bytes.fromhex(token.string())
        except ValueError:
            raise token.unexpected("pairs of hexadecimal digits") from None

    def _range(self) -> tuple[int, int]:
        """`offset:end` as (offset, number of bytes)."""
        start = self._integer("an offset")
        self._expect(":")
        token = self._next
        end = self._integer("an end")
        if not 0 <= start <= end:
            raise token.error(f"expected 0 <= offset <= end, found {start}:{end}")
        return start, end - start

    # -- functions

    def _function(self) -> Function:
        name = self._name("@", "the function's name")
        function = Function(name)
        scope: dict[str, Value] = {}
        self._expect("(")
        function.inputs = self._list(lambda: self._input(scope), ")")
        self._expect("{")
        while not self._accept("return"):
            function.ops.append(self._op(scope))
        if not self._at("}"):
            function.outputs = [self._value(scope)]
            while self._accept(","):
                function.outputs.append(self._value(scope))
        self._expect("}")
        return function

    def _input(self, scope: dict[str, Value]) -> Value:
        token = self._next
        name = self._name("%", "an input")
        self._expect(":")
        return _define(scope, Value(name, self._type(), self._buffer()), token)

    def _value(self, scope: Mapping[str, Value]) -> Value:
        token = self._next
        name = self._name("%", "a value")
        if name not in scope:
            raise token.error(f"unknown value %{name}; expected a value defined above")
        return scope[name]

    def _op(self, scope: dict[str, Value]) -> Op:
        results: list[tuple[Token, str]] = []
        if self._next.kind == "name":
            results.append((self._next, self._name("%", "a result")))
            while self._accept(","):
                results.append((self._next, self._name("%", "a result")))
            self._expect("=")
        token = self._kind("word", "an op or 'return'")
        if token.text not in OPS:
            raise token.error(f"unknown op {token.text!r}; known: {', '.join(sorted(OPS))}")
        definition = OPS[token.text]
        operands = self._operands(definition, scope)
        attributes = self._attributes() if self._at("{") else {}
        values = self._results(results, scope)
        try:
            complete = definition.complete_operands(operands)
            return Op(definition, complete, definition.complete_attributes(attributes), values)
        except OperandError as error:
            raise token.error(f"op {definition.name}, {error}") from None

    def _results(self, names: list[tuple[Token, str]], scope: dict[str, Value]) -> list[Value]:
        values = []
        for index, (token, name) in enumerate(names):
            self._expect("," if index else ":")
            values.append(_define(scope, Value(name, self._type(), self._buffer()), token))
        return values

    def _operands(self, definition: OpDef, scope: Mapping[str, Value]) -> dict[str, Operand]:
        self._expect("(")
        operands: dict[str, Operand] = {}
        required = [spec for spec in definition.operands if not spec.optional]
        while not self._accept(")"):
            if operands:
                self._expect(",")
            spec = self._keyword(definition) if self._next.kind == "word" else None
            if spec is None and not required:
                raise self._next.unexpected("')' or an optional operand (name=...)")
            spec = spec or required.pop(0)
            operands[spec.name] = self._operand(spec, scope)
        return operands

    def _keyword(self, definition: OpDef) -> OperandSpec:
        token = self._take()
        optional = {spec.name: spec for spec in definition.operands if spec.optional}
        if token.text not in optional:
            raise token.unexpected(f"one of {', '.join(optional)}" if optional else "no name")
        self._expect("=")
        return optional[token.text]

    def _operand(self, spec: OperandSpec, scope: Mapping[str, Value]) -> Operand:
        if not spec.variadic:
            return self._leaf(spec, scope)
        self._expect("[")
        group = self._list(lambda: self._leaf(spec, scope), "]")
        return tuple(group)  # type: ignore[return-value]

    def _leaf(self, spec: OperandSpec, scope: Mapping[str, Value]) -> Leaf:
        token = self._next
        expected = f"operand '{spec.name}', a {spec.kind}"
        if spec.kind == "value":
            return self._value(scope) if token.text[:1] == "%" else _fail(token, expected)
        sigil, table = (
            ("@", self._module.weights)
            if spec.kind == "weight"
            else (
                "$",
                self._module.states,
            )
        )
        name = self._name(sigil, expected)
        if name not in table:
            raise token.error(f"unknown {spec.kind} {sigil}{name}; expected one declared above")
        return table[name]

    # -- attributes and types

    def _attributes(self) -> dict[str, Any]:
        self._expect("{")
        values: dict[str, Any] = {}
        for token, value in self._list(self._attribute, "}"):
            if token.text in values:
                raise token.error(f"attribute {token.text} is given twice")
            values[token.text] = value
        return values

    def _attribute(self) -> tuple[Token, Any]:
        token = self._kind("word", "an attribute's name")
        self._expect("=")
        if self._accept("["):
            return token, self._list(self._scalar, "]")
        return token, self._scalar()

    def _scalar(self) -> Any:
        token = self._next
        if token.kind == "string":
            return self._take().string()
        if token.kind == "number":
            return number(self._take())
        if token.kind == "word" and token.text in _WORD_VALUES:
            return _WORD_VALUES[self._take().text]
        if token.kind == "word":
            return self._dim()
        raise token.unexpected("a number, a string, true, false or a dimension")

    def _type(self) -> TensorType:
        token = self._kind("word", "a type such as f32[T, 64]")
        try:
            element = dtype(token.text)
        except IRError as error:
            raise token.error(str(error)) from None
        self._expect("[")
        return TensorType(tuple(self._list(self._dim, "]")), element)

    def _dim(self) -> Dim:
        if self._next.kind == "number":
            return self._integer("a whole number")
        token = self._kind("word", "a dimension")
        if self._accept("<="):
            bound = self._integer("the bound of a symbol")
            self._symbols[token.text] = Symbol(token.text, bound)
        if token.text not in self._symbols:
            raise token.unexpected(f"'{token.text}<=bound' where {token.text} first appears")
        return self._symbols[token.text]

    def _buffer(self) -> Buffer | None:
        if not self._accept("in"):
            return None
        space = self._kind("word", "a memory space").text
        self._expect("[")
        offset, nbytes = self._range()
        self._expect("]")
        return Buffer(space, offset, nbytes)


def _define(scope: dict[str, Value], value: Value, token: Token) -> Value:
    if value.name in scope:
        raise token.error(f"value %{value.name} is defined twice")
    scope[value.name] = value
    return value


def _fail(token: Token, expected: str) -> Leaf:
    raise token.unexpected(expected)
