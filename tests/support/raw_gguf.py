"""Pieces of GGUF files as raw bytes, for files that no writer would write."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

from ggufc.compiler.gguf.constants import KIND_BY_NAME


def header(n_tensors: int, n_keys: int, version: int = 3) -> bytes:
    """The beginning of a file, as raw bytes."""
    return b"GGUF" + pack("<IQQ", version, n_tensors, n_keys)


def key(name: str, kind: str, payload: bytes) -> bytes:
    """A key-value pair, with the value's bytes given."""
    return string(name) + pack("<I", KIND_BY_NAME[kind].id) + payload


def string(text: str) -> bytes:
    """A string as it is stored."""
    raw = text.encode()
    return pack("<Q", len(raw)) + raw


def tensor_entry(name: str, dims: Sequence[int], type_id: int = 0, offset: int = 0) -> bytes:
    """An entry of the tensor table; `dims` as stored, fastest first."""
    return (
        string(name)
        + pack("<I", len(dims))
        + pack(f"<{len(dims)}Q", *dims)
        + pack("<IQ", type_id, offset)
    )
