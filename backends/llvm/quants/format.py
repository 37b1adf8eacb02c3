"""The description of a quantised layout that every kernel is generated from.

A value is scale * (code - zero) + minimum, or scale * (code - zero) - deduction. A *block* is 32
consecutive k, the run that shares an activation scale; its *parts* (one of 32 k, or two of 16) have
a scale each, and a deduction where there is no minimum for the whole block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ggufc.backends.llvm.kernel_builder import Val
from ggufc.backends.llvm.layouts import Layout, layout_for
from ggufc.backends.llvm.lowering import CodeType
from ggufc.backends.llvm.quants.views import View
from ggufc.ir import IRError
from ggufc.ir.types import round_up

BLOCK_K = 32
_LINE = 64


@dataclass(frozen=True)
class Part:
    """Codes of consecutive k in order, unsigned bytes as the view has them, and their f32 scale.

    `deduction` (f32) is taken from every value; only parts of 16 k may have one.
    """

    codes: Sequence[Val]
    scale: Val
    deduction: Val | None = None


@dataclass(frozen=True)
class Block:
    """32 consecutive k; `minimum` (f32) is added to every value where it is given."""

    parts: Sequence[Part]
    minimum: Val | None = None

    def added(self, part: Part) -> Val | None:
        """What is added to scale * (code - zero) of a part's values, if anything is."""
        return self.minimum if part.deduction is None else -part.deduction


@dataclass(frozen=True)
class Format:
    """How to read a layout: `header` what a unit has once, `blocks` those of one step of `step_k`.

    Both take a view at the unit; `blocks` also takes the header and the step's number from 0.
    """

    layout: Layout
    codes: CodeType
    step_k: int
    header: Callable[[View], Any]
    blocks: Callable[[View, Any, Val], Sequence[Block]]

    @property
    def step_bytes(self) -> int:
        """Bytes of a unit that a step reads about, in whole lines."""
        return round_up(self.layout.unit_bytes // self.steps, _LINE)

    @property
    def steps(self) -> int:
        """Steps of a unit."""
        return self.layout.unit_k // self.step_k


FORMATS: dict[str, Format] = {}


def register(
    type_name: str,
    *,
    bits: int,
    zero: int,
    step_k: int,
    blocks: Callable[[View, Any, Val], Sequence[Block]],
    header: Callable[[View], Any] = lambda view: None,
) -> None:
    """Add the format of an element type's layout."""
    layout = layout_for(type_name)
    FORMATS[layout.name] = Format(layout, CodeType(bits, zero), step_k, header, blocks)


def format_for(layout_name: str) -> Format:
    """The format of a quantised layout; IRError lists the known ones."""
    if layout_name not in FORMATS:
        raise IRError(
            f"layout {layout_name!r} has no quantised format; known: {', '.join(FORMATS)}"
        )
    return FORMATS[layout_name]
