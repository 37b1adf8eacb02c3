"""From the metadata of a model file to the spec of its tokenizer.

Every key that is used is checked here, and every error names the key: what a prompt would meet
later is refused when a model is compiled. Missing optional keys mean: types, all normal, but for
what the texts show; scores, all equal; begin and end tokens as the kind of vocabulary has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ggufc.compiler.tokenizer_keys import numbers_of, sequence_of, shown, strings_of, text_of
from ggufc.tokenizer import families
from ggufc.tokenizer.arrays import Float32Array, UInt8Array
from ggufc.tokenizer.build import TokenizerSource, build_spec
from ggufc.tokenizer.errors import SpecError
from ggufc.tokenizer.markers import CHATML_TEXTS, end_of_turn_ids, is_markup
from ggufc.tokenizer.pretokenizers import PreTokenizer, pretokenizer
from ggufc.tokenizer.spec import TokenizerSpec, TokenType

PREFIX = "tokenizer.ggml."
MODEL = PREFIX + "model"
PRE = PREFIX + "pre"
TOKENS = PREFIX + "tokens"
TYPES = PREFIX + "token_type"
SCORES = PREFIX + "scores"
MERGES = PREFIX + "merges"
ARCHITECTURE = "general.architecture"
CHARSMAP = PREFIX + "precompiled_charsmap"

KINDS = {"gpt2": "bpe", "llama": "spm", "gemma4": "gemma4", "t5": "unigram", "bert": "wordpiece"}
# Byte-level in name only: these split lines, mark spaces and merge characters, as Gemma 4's does.
_SPACE_MARK_PRES = ("gemma4", "granite-embed-multi-311m", "sarvam-moe")

SPECIAL_KEYS = {
    "bos_token_id": "bos",
    "eos_token_id": "eos",
    "eot_token_id": "eot",
    "eom_token_id": "eom",
    "unknown_token_id": "unk",
    "seperator_token_id": "sep",
    "padding_token_id": "pad",
    "cls_token_id": "cls",
    "mask_token_id": "mask",
    "prefix_token_id": "fim_pre",
    "suffix_token_id": "fim_suf",
    "middle_token_id": "fim_mid",
    "fim_pre_token_id": "fim_pre",
    "fim_suf_token_id": "fim_suf",
    "fim_mid_token_id": "fim_mid",
    "fim_pad_token_id": "fim_pad",
    "fim_rep_token_id": "fim_rep",
    "fim_sep_token_id": "fim_sep",
}
# Texts that name a special token where the file has no key for it.
_DEFAULT_TEXTS: dict[str, dict[str, tuple[bytes, ...]]] = {
    "spm": {"bos": (b"<s>", b"<bos>"), "eos": (b"</s>", b"<eos>"), "unk": (b"<unk>",)},
    "gemma4": {"bos": (b"<bos>",), "eos": (b"<eos>",), "unk": (b"<unk>",)},
    "unigram": {"eos": (b"</s>",), "unk": (b"<unk>",)},
    "wordpiece": {"bos": (b"[CLS]",), "sep": (b"[SEP]",), "unk": (b"[UNK]",)},
}


def import_tokenizer(metadata: Mapping[str, Any]) -> TokenizerSpec:
    """The spec of a file's tokenizer, from its metadata.

    Strings may be bytes, or str with bytes that are not UTF-8 as surrogates. Raises SpecError, in
    one line that names the file, if `metadata` knows it, and the key, for anything that is missing,
    mistyped, out of range or unknown.
    """
    try:
        return _imported(metadata)
    except SpecError as error:
        label = getattr(metadata, "label", None)
        raise SpecError(f"{label}: {error}" if label else str(error)) from None


def _imported(metadata: Mapping[str, Any]) -> TokenizerSpec:
    kind, row = _kind_and_row(metadata)
    texts = _texts(metadata)
    types = _types(metadata, kind, texts)
    ids = {text: token for token, text in reversed(list(enumerate(texts)))}
    special = _special_ids(metadata, kind, ids, len(texts))
    _mark_forgotten(types, texts, ids, special)
    pre = row.name if row else None
    if kind == "unigram":
        pre = families.unigram_split(text_of(metadata, ARCHITECTURE) or "")
    source = TokenizerSource(
        kind=kind,
        pre=pre,
        texts=texts,
        types=types,
        scores=_scores(metadata, kind, len(texts)),
        merges=_merges(metadata) if kind in ("bpe", "gemma4") else (),
        special=special,
        flags=_flags(metadata, kind, row),
        strip=_strip(metadata, kind, texts, types),
        stop_ids=_stop_ids(special, ids),
        charsmap=_charsmap(metadata) if kind == "unigram" else b"",
    )
    _check_source(source)
    return build_spec(source)


def _kind_and_row(metadata: Mapping[str, Any]) -> tuple[str, PreTokenizer | None]:
    model = text_of(metadata, MODEL)
    kind = KINDS.get(model or "")
    if kind is None:
        found = "is missing" if model is None else f"is {model!r:.60}"
        raise SpecError(f"{MODEL} {found}; known: {', '.join(KINDS)}")
    if kind != "bpe":
        return kind, pretokenizer("gemma4") if kind == "gemma4" else None
    row = pretokenizer(text_of(metadata, PRE))
    name = text_of(metadata, PRE)
    return ("gemma4" if name in _SPACE_MARK_PRES else "bpe"), row


def _texts(metadata: Mapping[str, Any]) -> list[bytes]:
    texts = strings_of(metadata, TOKENS)
    if texts is None:
        raise SpecError(f"{TOKENS} is missing: the file has no vocabulary")
    if not texts:
        raise SpecError(f"{TOKENS} is empty")
    return [text or f"[EMPTY_{token}]".encode() for token, text in enumerate(texts)]


def _types(metadata: Mapping[str, Any], kind: str, texts: list[bytes]) -> UInt8Array:
    stored = numbers_of(metadata, TYPES, len(texts))
    if stored is not None:
        known = np.isin(stored, [int(t) for t in TokenType])
        return np.where(known, stored, int(TokenType.UNUSED)).astype(np.uint8)
    types = np.full(len(texts), TokenType.NORMAL, np.uint8)
    for token, text in enumerate(texts):
        if kind != "bpe" and _is_byte_text(text):
            types[token] = TokenType.BYTE
        elif text in _CONTROL_TEXTS or (text.startswith(b"<|") and text.endswith(b"|>")):
            types[token] = TokenType.CONTROL
    return types


_CONTROL_TEXTS = frozenset(
    b"<s> </s> <unk> <pad> <bos> <eos> <mask> [CLS] [SEP] [UNK] [PAD] [MASK]".split()
)


def _is_byte_text(text: bytes) -> bool:
    digits = text[3:5]
    return len(text) == 6 and text[:3] == b"<0x" and text[5:] == b">" and _is_hex(digits)


def _is_hex(digits: bytes) -> bool:
    return all(digit in b"0123456789ABCDEFabcdef" for digit in digits)


def _special_ids(
    metadata: Mapping[str, Any], kind: str, ids: dict[bytes, int], size: int
) -> dict[str, int]:
    special: dict[str, int] = {}
    for suffix, name in SPECIAL_KEYS.items():
        key = PREFIX + suffix
        value = metadata.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise SpecError(f"{key} is {shown(value)}, an integer is wanted")
        if not 0 <= value < size:
            raise SpecError(f"{key} is {value}, allowed are 0 to {size - 1}")
        special[name] = int(value)
    for name, texts in _DEFAULT_TEXTS.get(kind, {}).items():
        for text in texts:
            if name not in special and text in ids:
                special[name] = ids[text]
    return special


def _mark_forgotten(
    types: UInt8Array, texts: list[bytes], ids: dict[bytes, int], special: dict[str, int]
) -> None:
    """Makes control tokens of ChatML's markers and the end tokens where the file calls them
    normal; what it calls anything else stands."""
    suspects = [ids[text] for text in CHATML_TEXTS if text in ids]
    suspects += [special[name] for name in ("eos", "eot", "eom") if name in special]
    for token in suspects:
        if types[token] == TokenType.NORMAL and is_markup(texts[token]):
            types[token] = TokenType.CONTROL


def _scores(metadata: Mapping[str, Any], kind: str, size: int) -> Float32Array | None:
    scores = numbers_of(metadata, SCORES, size, real=True)
    if scores is not None:
        if not np.isfinite(scores).all():
            raise SpecError(f"{SCORES} has a value that is no finite number")
        return scores.astype(np.float32)
    if kind == "unigram":
        raise SpecError(f"{SCORES} is missing, which a {MODEL} of 't5' needs")
    return None


def _merges(metadata: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """The merge list, each split at its first space."""
    lines = strings_of(metadata, MERGES)
    if lines is None:
        if text_of(metadata, PRE) == "kimi-k2":
            return []
        raise SpecError(
            f"{MERGES} is missing, which a {MODEL} of {text_of(metadata, MODEL)!r} needs"
        )
    if not lines:
        raise SpecError(f"{MERGES} is empty")
    pairs = []
    for index, line in enumerate(lines):
        left, space, right = line.partition(b" ")
        if not (left and space and right):
            raise SpecError(f"{MERGES} entry {index} is {shown(line)}, two parts are wanted")
        pairs.append((left, right))
    return pairs


def _flags(metadata: Mapping[str, Any], kind: str, row: PreTokenizer | None) -> dict[str, bool]:
    def flag(name: str, default: bool) -> bool:
        value = metadata.get(PREFIX + name)
        if value is None:
            return default
        if not isinstance(value, bool | np.bool_):
            raise SpecError(f"{PREFIX}{name} is {shown(value)}, a bool is wanted")
        return bool(value)

    spm, words = kind == "spm", kind == "wordpiece"
    lowercase = flag("normalizer.lowercase", True) if words else False
    return {
        "add_bos": kind == "gemma4"
        or flag("add_bos_token", spm or words or bool(row and row.add_bos)),
        "add_eos": flag("add_eos_token", kind == "unigram"),
        "add_sep": flag("add_sep_token", words or bool(row and row.add_sep)),
        "add_space_prefix": flag("add_space_prefix", spm or kind == "unigram")
        if spm or kind == "unigram"
        else False,
        "remove_extra_whitespaces": flag("remove_extra_whitespaces", False),
        "ignore_merges": bool(row and row.ignore_merges),
        "nfc": bool(row and row.nfc),
        "clean_up": bool(row and row.clean_up) or words,
        "lowercase": lowercase,
        "strip_accents": flag("normalizer.strip_accents", lowercase) if words else False,
    }


def _strip(
    metadata: Mapping[str, Any], kind: str, texts: list[bytes], types: UInt8Array
) -> dict[int, str]:
    added = {
        int(token): texts[token].decode("utf-8", "replace")
        for token in np.flatnonzero(np.isin(types, (TokenType.CONTROL, TokenType.USER_DEFINED)))
    }
    architecture = text_of(metadata, ARCHITECTURE) or ""
    name = text_of(metadata, "general.name") or ""
    return families.strip_sides(kind, text_of(metadata, PRE), architecture, name, added)


def _stop_ids(special: dict[str, int], ids: dict[bytes, int]) -> tuple[int, ...]:
    named = [special[name] for name in ("eos", "eot", "eom") if name in special]
    return tuple(sorted({*named, *end_of_turn_ids(ids)}))


def _charsmap(metadata: Mapping[str, Any]) -> bytes:
    value = metadata.get(CHARSMAP)
    if value is None:
        return b""
    numpy = getattr(value, "numpy", None)
    data = np.asarray(numpy() if numpy else sequence_of(value, CHARSMAP))
    if data.dtype.kind not in "iu" or (len(data) and not -128 <= data.min() <= data.max() <= 255):
        raise SpecError(f"{CHARSMAP} is not an array of bytes")
    return bytes(data.astype(np.uint8).tobytes())


def _check_source(source: TokenizerSource) -> None:
    """Checks what no single key shows."""
    for token in np.flatnonzero(source.types == TokenType.BYTE).tolist():
        if source.kind == "bpe":
            source.types[token] = TokenType.NORMAL
        elif not _is_byte_text(source.texts[token]):
            raise SpecError(
                f"{TYPES} calls token {token} a byte, but {TOKENS} spells it "
                f"{shown(source.texts[token])}; '<0x00>' to '<0xFF>' are wanted"
            )
    wanted = {"wordpiece": "unk", "unigram": "unk"}.get(source.kind)
    if wanted and wanted not in source.special:
        raise SpecError(f"{PREFIX}unknown_token_id is missing, which this vocabulary needs")
