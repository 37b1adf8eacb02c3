"""The C interface of an object: the fields of a call, the return codes and the exported symbols.

docs/architecture.md is the contract; this file is its one spelling in code for the code generator.
"""

from __future__ import annotations

from enum import IntEnum

ABI_VERSION = 1

# The fields of `ggufc_call`, eight bytes each, in order.
CALL_FIELDS = (
    "abi_version",
    "weights",
    "arena",
    "states",
    "tokens",
    "positions",
    "sequences",
    "rows",
    "logits",
    "n_tokens",
    "n_rows",
    "context",
    "n_sequences",
    "profile",
    "pool",
    "lengths",
)
CALL_BYTES = 8 * len(CALL_FIELDS)
INPUT_FIELDS = ("tokens", "positions", "sequences", "rows", "lengths")

# Of the last three an object has those whose graphs its module has.
EXPORTS = (
    "ggufc_abi_version",
    "ggufc_pool_bytes",
    "ggufc_pool_init",
    "ggufc_worker",
    "ggufc_pool_close",
    "ggufc_prefill",
    "ggufc_decode",
    "ggufc_embed",
)


class ReturnCode(IntEnum):
    """What the graphs' entry points return; all but OK mean that nothing was done."""

    OK = 0
    ABI_VERSION = 1
    """`abi_version` is not this object's."""
    N_TOKENS = 2
    """`n_tokens` is not between 1 and the compiled maximum."""
    N_ROWS = 3
    """`n_rows` is below 0 or above the compiled maximum."""
    CONTEXT = 4
    """`context` is not a multiple of 64 between 64 and the compiled maximum, rounded up to 64."""
    N_SEQUENCES = 5
    """`n_sequences` is not between 1 and the compiled maximum."""
    ALIGNMENT = 6
    """`weights`, `arena` or `pool` is null or not 64-byte aligned."""


def field_offset(name: str) -> int:
    """The byte offset of a field of `ggufc_call`."""
    return 8 * CALL_FIELDS.index(name)
