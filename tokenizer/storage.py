"""The stored form of a spec: `tokenizer.json` (small) and `tokenizer.bin` (flat arrays).

The arrays lie one after another, each 64-byte aligned, little-endian, and are mapped, not read:
a vocabulary of 262,144 tokens is ready in milliseconds. Nothing in the files is trusted: extents
are checked against the file, and every number that later serves as an index against its range.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggufc.tokenizer.errors import SpecError
from ggufc.tokenizer.spec import TokenizerSpec, spec_from_config

FORMAT = 1
CONFIG_NAME = "tokenizer.json"
ARRAYS_NAME = "tokenizer.bin"
_ALIGNMENT = 64
_DTYPES = {"u1": np.uint8, "i4": np.int32, "u4": np.uint32, "f4": np.float32}


def save_spec(spec: TokenizerSpec, directory: Path) -> None:
    """Writes both files into `directory`, which exists."""
    table: list[dict[str, Any]] = []
    with open(directory / ARRAYS_NAME, "wb") as out:
        for name, array in sorted(spec.arrays.items()):
            out.write(b"\0" * (-out.tell() % _ALIGNMENT))
            code = f"{array.dtype.kind}{array.dtype.itemsize}"
            table.append(
                {"name": name, "type": code, "offset": out.tell(), "count": int(array.size)}
            )
            out.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    document = {"format": FORMAT, "arrays": table, "config": spec.config()}
    text = json.dumps(document, sort_keys=True, indent=1, ensure_ascii=True)
    (directory / CONFIG_NAME).write_text(text + "\n", encoding="ascii")


def load_spec(directory: Path) -> TokenizerSpec:
    """Maps the spec in `directory`. Raises SpecError naming the file and what is wrong in it."""
    document = _read_config(directory / CONFIG_NAME)
    blob = _map(directory / ARRAYS_NAME)
    arrays = {}
    for row in document["arrays"]:
        name, array = _array(row, blob)
        arrays[name] = array
    check_arrays(arrays)
    return spec_from_config(document["config"], arrays)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(f"{path}: cannot be read: {_one_line(error)}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise SpecError(f"{path}: format {found!r:.40}, this version reads format {FORMAT}")
    if not isinstance(document.get("arrays"), list) or not isinstance(document.get("config"), dict):
        raise SpecError(f"{path}: the arrays or config section is missing")
    return document


def _map(path: Path) -> NDArray[np.uint8]:
    try:
        return np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise SpecError(f"{path}: cannot be mapped: {_one_line(error)}") from None


def _array(row: Any, blob: NDArray[np.uint8]) -> tuple[str, NDArray[Any]]:
    try:
        name, dtype = str(row["name"]), np.dtype(_DTYPES[row["type"]])
        offset, count = int(row["offset"]), int(row["count"])
    except (TypeError, KeyError, ValueError):
        raise SpecError(f"{CONFIG_NAME}: array entry {row!r:.80} is not understood") from None
    end = offset + count * dtype.itemsize
    if offset < 0 or count < 0 or offset % _ALIGNMENT or end > len(blob):
        raise SpecError(
            f"{ARRAYS_NAME}: array {name!r} needs bytes {offset}..{end}, the file has {len(blob)}"
        )
    view = np.asarray(blob[offset:end])
    return name, view.view(dtype)


def check_arrays(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Checks every extent and index of the arrays. Raises SpecError naming the array."""
    for name, dtype in _REQUIRED.items():
        _require(name in arrays and arrays[name].dtype == dtype, name, "is missing or mistyped")
    size = len(arrays["types"])
    _check_ends(arrays, "token_ends", size, len(arrays["token_bytes"]))
    _require(size < 1 << 30, "types", f"has {size} entries")
    for name in ("byte_ids", "char_ids"):
        if name in arrays:
            _check_range(arrays, name, -1, size)
    if "scores" in arrays:
        _require(len(arrays["scores"]) == size, "scores", f"has not {size} entries")
    if "char_codes" in arrays:
        _check_chars(arrays)
    if "joins" in arrays:
        bits = len(arrays["joins"])
        _require(bits > 0 and bits & (bits - 1) == 0, "joins", "is not a bitmap")
    if "whole_slots" in arrays:
        _check_slots(arrays, "whole_slots", size)
        _require(len(arrays.get("whole_hashes", ())) == size, "whole_hashes", "has a wrong length")
    if "pair_slots" in arrays:
        _check_merges(arrays, size)


_REQUIRED = {"types": np.uint8, "token_bytes": np.uint8, "token_ends": np.uint32}


def _check_chars(arrays: Mapping[str, NDArray[Any]]) -> None:
    codes = arrays["char_codes"]
    same = len(codes) == len(arrays.get("char_ids", ()))
    _require(same and (not len(codes) or codes.max() < 0x110000), "char_codes", "is out of range")


def _check_merges(arrays: Mapping[str, NDArray[Any]], size: int) -> None:
    rules = len(arrays.get("merge_left", ()))
    symbols = size + len(arrays.get("virtual_ends", ()))
    for name in ("merge_left", "merge_right", "merge_result"):
        _require(len(arrays.get(name, ())) == rules, name, f"has not {rules} entries")
        _check_range(arrays, name, 0, symbols)
    _check_slots(arrays, "pair_slots", rules)
    _require(len(arrays.get("merge_rank", ())) == rules, "merge_rank", "has a wrong length")
    ranks = len(arrays.get("rank_simple", ()))
    _check_range(arrays, "merge_rank", 0, ranks)
    if "virtual_ends" in arrays:
        expansion = arrays.get("virtual_ids", np.zeros(0, np.int32))
        _check_ends(arrays, "virtual_ends", symbols - size, len(expansion))
        if len(expansion):
            _check_range(arrays, "virtual_ids", 0, size)


def _check_ends(arrays: Mapping[str, NDArray[Any]], name: str, count: int, total: int) -> None:
    ends = arrays[name]
    steps_up = bool(np.all(ends[1:] >= ends[:-1]))
    last = int(ends[-1]) if len(ends) else 0
    _require(len(ends) == count and steps_up and last == total, name, "does not fit its data")


def _check_range(arrays: Mapping[str, NDArray[Any]], name: str, low: int, high: int) -> None:
    array = arrays.get(name)
    _require(array is not None and array.dtype == np.int32, name, "is missing or mistyped")
    if array is not None and len(array):
        inside = int(array.min()) >= low and int(array.max()) < high
        _require(inside, name, f"has an entry outside {low}..{high - 1}")


def _check_slots(arrays: Mapping[str, NDArray[Any]], name: str, rows: int) -> None:
    slots = arrays[name]
    _check_range(arrays, name, -1, rows)
    power = len(slots) > 0 and len(slots) & (len(slots) - 1) == 0
    _require(power and bool((slots == -1).any()), name, "is not a lookup table")


def _require(condition: bool, name: str, problem: str) -> None:
    if not condition:
        raise SpecError(f"{ARRAYS_NAME}: array {name!r} {problem}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
