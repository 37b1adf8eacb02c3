"""Text that is not IR: the place, what was expected and what was found."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggufc.ir import IRError, ParseError, parse_module, print_module, verify
from tests.support.tiny_ir import TinyTransformer

HEAD = 'module "m" {\n  weight @w : f32[4]\n  state $s : bf16[S<=2, C<=8, 1, 4]\n'
BODY = "  func @f(%x: f32[T<=4, 4], %p: i32[T]) {\n    "

CASES = [
    ("", 1, 1, "expected 'module', found the end of the text"),
    ("module m", 1, 8, "expected the module's name in quotes, found 'm'"),
    ('module "m" {', 1, 13, "expected 'weight', 'state', 'func' or '}', found the end of the text"),
    ('module "m" {} x', 1, 15, "expected the end of the text, found 'x'"),
    ('module "m" {a = } {}', 1, 17, "expected a number, a string, true, false or a dimension"),
    ('module "m" {a = 1, a = 2} {}', 1, 20, "attribute a is given twice"),
    ('module "m" {a = \x01} {}', 1, 17, "unexpected character '\\x01'"),
    ('module "m" {a = "\\q"} {}', 1, 17, "bad string: Invalid \\escape"),
    (f'module "m" {{a = {"9" * 5000}}} {{}}', 1, 17, "a number of too many digits"),
    ('module "m" {\n  weight w : f32[4]', 2, 10, "expected the weight's name (@name), found 'w'"),
    ('module "m" {\n  weight @w : f8[4]', 2, 15, "unknown element type 'f8'; known: f32"),
    ('module "m" {\n  weight @w : f32[4', 2, 20, "expected ',', found the end of the text"),
    ('module "m" {\n  weight @w : f32[T]', 2, 19, "expected 'T<=bound' where T first appears"),
    ('module "m" {\n  weight @w : f32[1.5]', 2, 19, "expected a whole number, found '1.5'"),
    (
        'module "m" {\n  weight @w : f32[4] = hex"zz"',
        2, 27, "expected pairs of hexadecimal digits, found '\"zz\"'",
    ),
    ('module "m" {\n  weight @w : f32[4] = 1', 2, 24, "expected 'hex', found '1'"),
    (
        'module "m" {\n  weight @w : f32[4] layout raw at 9:8',
        2, 38, "expected 0 <= offset <= end, found 9:8",
    ),
    (HEAD + "  weight @w : f32[4]\n", 4, 3, "weight w is declared twice"),
    (HEAD + "  state $s : f32[4]\n", 4, 3, "state s is declared twice"),
    (HEAD + BODY + "%y = silu(%z) : f32[T, 4]", 5, 15, "unknown value %z; expected a value"),
    (HEAD + BODY + "%y = silly(%x) : f32[T, 4]", 5, 10, "unknown op 'silly'; known: add, att"),
    (HEAD + BODY + "%x = silu(%x) : f32[T, 4]", 5, 5, "value %x is defined twice"),
    (HEAD + BODY + "%y = silu(%x)", 5, 18, "expected ':', found the end of the text"),
    (HEAD + BODY + "%y = silu(@w) : f32[T, 4]", 5, 15, "expected operand 'x', a value, found '@w'"),
    (
        HEAD + BODY + "%y = silu(%x, %x) : f32[T, 4]",
        5, 19, "expected ')' or an optional operand (name=...), found '%x'",
    ),
    (
        HEAD + BODY + "%y = silu(x=%x) : f32[T, 4]",
        5, 15, "expected no name, found 'x'",
    ),
    (HEAD + BODY + "%y = silu() : f32[T, 4]", 5, 10, "op silu, operand 'x': missing"),
    (
        HEAD + BODY + "%y = rms_norm(%x, @v) {eps = 1.0} : f32[T, 4]",
        5, 23, "unknown weight @v; expected one declared above",
    ),
    (
        HEAD + BODY + "%y = rms_norm(%x, $s) {eps = 1.0} : f32[T, 4]",
        5, 23, "expected operand 'weight', a weight (@name), found '$s'",
    ),
    (
        HEAD + BODY + "%y = rms_norm(%x, @w) {epsilon = 1.0} : f32[T, 4]",
        5, 10, "op rms_norm, attribute 'epsilon': unknown; allowed: eps",
    ),
    (
        HEAD + BODY + '%y = rms_norm(%x, @w) {eps = "1"} : f32[T, 4]',
        5, 10, "op rms_norm, attribute 'eps': expected float, found '1'",
    ),
    (
        HEAD + BODY + "%y = linear(%x, @w) : f32[T, 4]",
        5, 21, "expected '[', found '@w'",
    ),
    (
        HEAD + BODY + "%y = linear(%x, [@w], base=@w) : f32[T, 4]",
        5, 27, "expected one of bias, residual, found 'base'",
    ),
    (
        HEAD + BODY + "%y = silu(%x) : f32[T, 4] in arena[0:]",
        5, 42, "expected an end, found ']'",
    ),
    (HEAD + BODY + "return %y", 5, 12, "unknown value %y"),
    (HEAD + BODY + "= silu(%x)", 5, 5, "expected an op or 'return', found '='"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), CASES, ids=range(len(CASES)))
def test_message(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"line {line}, column {column}: ")
    assert "\n" not in str(caught.value)


TEXT = print_module(TinyTransformer(n_layers=1).module())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_text_is_refused_or_read(data: st.DataObject) -> None:
    """Cutting or changing the text anywhere gives an IRError or a module, never another error."""
    start = data.draw(st.integers(0, len(TEXT)))
    stop = data.draw(st.integers(start, min(start + 40, len(TEXT))))
    middle = data.draw(st.text(alphabet='%@${}[]()<=,:."\\-x19\n', max_size=4))
    message = ""
    try:
        verify(parse_module(TEXT[:start] + middle + TEXT[stop:]))
    except IRError as error:
        message = str(error)
    assert "\n" not in message
