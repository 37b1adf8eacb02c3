"""What a tokenizer is: the facts of one vocabulary, in this project's own form.

A spec knows nothing of the file it came from. It is made once, at compile time (`build.py`), kept
as `tokenizer.json` + `tokenizer.bin` (`storage.py`), and turned into a tokenizer by `factory.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggufc.tokenizer.arrays import Float32Array, UInt8Array
from ggufc.tokenizer.errors import SpecError

KINDS = ("bpe", "spm", "gemma4", "unigram", "wordpiece")
SPECIAL_NAMES = (
    "bos eos eot eom unk sep pad cls mask fim_pre fim_suf fim_mid fim_pad fim_rep fim_sep"
).split()


class TokenType(IntEnum):
    """GGUF's token types."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class TokenizerSpec:
    """One vocabulary with everything that encoding and decoding need.

    `arrays` holds the flat tables, by name (see `build.py` for what each kind has):
    `token_bytes` and `token_ends`: what each token stands for, end to end; `types`: uint8;
    `scores`: float32, Unigram only; `merge_*`, `pair_slots`, `whole_*`: the merge rules and the
    tables to find them in. `strip` maps the ids of added tokens to "l", "r" or "lr": they take the
    white space on that side with them.
    """

    kind: str
    pre: str | None
    arrays: Mapping[str, NDArray[Any]]
    special: Mapping[str, int]
    add_bos: bool = False
    add_eos: bool = False
    add_sep: bool = False
    add_space_prefix: bool = False
    remove_extra_whitespaces: bool = False
    ignore_merges: bool = False
    nfc: bool = False
    clean_up: bool = False
    lowercase: bool = False
    strip_accents: bool = False
    byte_fallback: bool = False
    strip: Mapping[int, str] = field(default_factory=dict)
    stop_ids: tuple[int, ...] = ()
    missing_bytes: tuple[int, ...] = ()

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self.arrays["types"])

    @property
    def types(self) -> UInt8Array:
        """The type of each token, a `TokenType`, as uint8."""
        return self.arrays["types"]

    @property
    def scores(self) -> Float32Array | None:
        """The score of each token, for kinds that keep them."""
        return self.arrays.get("scores")

    @property
    def tokens(self) -> list[bytes]:
        """What each token stands for."""
        blob = self.arrays["token_bytes"].tobytes()
        ends = self.arrays["token_ends"].tolist()
        return [blob[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def token(self, token: int) -> bytes:
        """What one token stands for."""
        ends = self.arrays["token_ends"]
        start = int(ends[token - 1]) if token else 0
        return self.arrays["token_bytes"][start : int(ends[token])].tobytes()

    @property
    def merges(self) -> list[tuple[int, int]]:
        """The pairs of symbols that merge, lowest rank first."""
        if "merge_left" not in self.arrays:
            return []
        left, right = self.arrays["merge_left"], self.arrays["merge_right"]
        return list(zip(left.tolist(), right.tolist(), strict=True))

    def save(self, directory: Path) -> None:
        """Writes `tokenizer.json` and `tokenizer.bin`; equal specs give equal bytes."""
        from ggufc.tokenizer.storage import save_spec

        save_spec(self, directory)

    @classmethod
    def load(cls, directory: Path) -> TokenizerSpec:
        """Maps what `save` wrote. Raises SpecError for a damaged file."""
        from ggufc.tokenizer.storage import load_spec

        return load_spec(directory)

    def config(self) -> dict[str, Any]:
        """All fields but the arrays, as plain JSON values."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "arrays"}
        values["special"] = dict(self.special)
        values["strip"] = {str(token): sides for token, sides in sorted(self.strip.items())}
        values["stop_ids"] = list(self.stop_ids)
        values["missing_bytes"] = list(self.missing_bytes)
        return values


def spec_from_config(
    config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> TokenizerSpec:
    """The spec of a stored configuration. Raises SpecError naming the field that is wrong."""
    known = {f.name: f for f in fields(TokenizerSpec) if f.name != "arrays"}
    unknown = sorted(set(config) ^ set(known))
    if unknown:
        raise SpecError(f"tokenizer.json: field {unknown[0]!r} is missing or not known")
    size = len(arrays["types"])
    for name in known:
        _check_field(name, config[name], size)
    values = dict(config)
    values["strip"] = {int(token): sides for token, sides in config["strip"].items()}
    values["stop_ids"] = tuple(config["stop_ids"])
    values["missing_bytes"] = tuple(config["missing_bytes"])
    return TokenizerSpec(arrays=arrays, **values)


def _check_field(name: str, value: Any, size: int) -> None:
    checks = {
        "kind": lambda: value in KINDS,
        "pre": lambda: value is None or isinstance(value, str),
        "special": lambda: _is_id_map(value, SPECIAL_NAMES, size),
        "strip": lambda: _is_strip_map(value, size),
        "stop_ids": lambda: _all_below(value, size),
        "missing_bytes": lambda: _all_below(value, 256),
    }
    if not checks.get(name, lambda: isinstance(value, bool))():
        raise SpecError(f"tokenizer.json: field {name!r} has the value {value!r:.80}")


def _is_id_map(value: Any, names: list[str], size: int) -> bool:
    return (
        isinstance(value, dict)
        and set(value) <= set(names)
        and _all_below(list(value.values()), size)
    )


def _is_strip_map(value: Any, size: int) -> bool:
    return isinstance(value, dict) and all(
        isinstance(token, str) and token.isdecimal() and int(token) < size and sides in _SIDES
        for token, sides in value.items()
    )


_SIDES = ("l", "r", "lr")


def _all_below(values: Any, limit: int) -> bool:
    return isinstance(values, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item < limit
        for item in values
    )


def empty_array(dtype: str) -> NDArray[Any]:
    """An array without elements."""
    return np.zeros(0, dtype)
