"""The values that 3-bit and 4-bit codes stand for, in the layouts whose codes are an index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggufc.ir.quant_grids import GRIDS
from ggufc.ir.quant_reference import E2M1_DOUBLED, IQ4_NL_VALUES


@dataclass(frozen=True)
class Codebook:
    """16 integers, to be multiplied by `factor` and a scale; `bits` is what they need with a sign.

    A codebook of 3-bit codes holds its 8 values twice.
    """

    values: tuple[int, ...]
    bits: int
    factor: float = 1.0

    @property
    def zero(self) -> int:
        """What is added to a value to make it an unsigned code of `bits` bits."""
        return 1 << (self.bits - 1)

    @property
    def codes(self) -> tuple[int, ...]:
        """The values as unsigned codes."""
        return tuple(value + self.zero for value in self.values)


def _integers(values: npt.NDArray[np.float32]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _signed(grid: str, size: int) -> tuple[int, ...]:
    """The levels of a grid filled up to half of `size`, then the same negated; repeated to 16."""
    levels = _integers(np.unique(GRIDS[grid]))
    half = levels + (0,) * (size // 2 - len(levels))
    return (half + tuple(-level for level in half)) * (16 // size)


# By the layout's own type. Grid types have a scale of (2 s + 1) * factor for a stored scale s.
CODEBOOKS = {
    "iq4_nl": Codebook(_integers(IQ4_NL_VALUES), 8),
    "iq4_xs": Codebook(_integers(IQ4_NL_VALUES), 8),
    "mxfp4": Codebook(_integers(E2M1_DOUBLED), 5),
    "nvfp4": Codebook(_integers(E2M1_DOUBLED), 5),
    "iq2_s": Codebook(_signed("iq2_s", 8), 7, 1 / 8),
    "iq3_xxs": Codebook(_signed("iq3_xxs", 16), 7, 1 / 4),
    "iq3_s": Codebook(_signed("iq3_s", 16), 5),
}
