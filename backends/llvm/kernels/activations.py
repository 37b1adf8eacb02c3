"""Where the fields of a quantised activation row (`q8a`) lie; docs/architecture.md defines them."""

from __future__ import annotations

from dataclasses import dataclass

from ggufc.ir.types import q8a_row_stride, round_up

_PADDING = 256


@dataclass(frozen=True)
class Q8aRow:
    """Byte offsets within a row of K elements; `qs` lie at 0, one byte each.

    Sums are of the int8 values of a block: `scaled_sums` times its scale (f32), the others negated
    (i32). Residuals have bytes at `residuals`, sums as those of the int8 values, and a byte a block
    that is 1 where there are residuals, else 0; the rest is unspecified there.
    """

    k: int

    @property
    def padded(self) -> int:
        """Elements, zeros included."""
        return round_up(self.k, _PADDING)

    @property
    def scales(self) -> int:
        return self.padded

    @property
    def scaled_sums(self) -> int:
        return self.padded + self.padded // 8

    @property
    def negative_sums(self) -> int:
        return self.padded + self.padded // 4

    @property
    def negative_half_sums(self) -> int:
        """One for every 16 elements."""
        return self.padded + 3 * self.padded // 8

    @property
    def residuals(self) -> int:
        return self.negative_half_sums + self.padded // 4

    @property
    def negative_residual_sums(self) -> int:
        """One for every 16 elements."""
        return self.residuals + self.padded

    @property
    def refined(self) -> int:
        """Whether a block has residuals."""
        return self.negative_residual_sums + self.padded // 4

    @property
    def stride(self) -> int:
        """Bytes from row to row."""
        return q8a_row_stride(self.k)
