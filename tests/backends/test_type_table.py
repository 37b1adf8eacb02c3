"""The page about types of weights says what the code does."""

from __future__ import annotations

from ggufc.backends.llvm.layouts import layout_for
from ggufc.backends.llvm.type_table import page, product_of
from tests.support.shared import ROOT


def test_the_page_is_generated_from_the_tables() -> None:
    assert (ROOT / "docs" / "types.md").read_text(encoding="utf-8") == page()


def test_the_page_has_every_type_with_its_sizes_and_products() -> None:
    text = page()
    assert "| q2_k | 2.625 | 2.625 | `r16.q2_k` | own layout |" in text
    assert "| tq1_0 | 1.6875 | 2.0625 | `r16.tq2_0` | exact repack, ternary digits" in text
    assert "| mxfp4 | bf16 | int8 | int8 | int8 | int8 | int8 | int8 |" in text
    assert "| f16 | float32 |" in text
    assert "(f64, i8, i16, i32, i64) are refused" in text


def test_only_plain_numbers_are_multiplied_in_float32() -> None:
    assert product_of(layout_for("bf16")) == "float32"
    assert product_of(layout_for("iq1_s")) == "int8"
