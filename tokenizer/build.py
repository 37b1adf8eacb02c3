"""Compile time: from a vocabulary's texts, types, scores and merges to the arrays of a spec.

Arrays of every kind: `token_bytes`, `token_ends`, `types`. Merging kinds (bpe, spm, gemma4):

* `byte_ids` (256): the token of each byte, -1 where the vocabulary lacks it;
* `char_codes`, `char_ids` (spm, gemma4): the code points that are tokens; `joins`: see `_joins`;
* `merge_left`, `merge_right`, `merge_result`, `merge_rank`: the rules, by rank. A symbol is a token
  or, from `vocab_size` on, a *virtual* one: what a merge makes although it is not in the
  vocabulary. `virtual_ids`, cut at `virtual_ends`: the byte tokens that a virtual symbol becomes;
* `rank_simple`: 1 where all occurrences of a rank may be merged at once, because nothing that they
  make can merge at that rank or an earlier one;
* `pair_slots`, `whole_slots`, `whole_hashes`: tables over the pairs, and over the tokens that are
  the encoding of their own text.

Control tokens and markers are kept out of all of these: no text merges into one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ggufc.tokenizer import byte_alphabet
from ggufc.tokenizer.arrays import (
    Float32Array,
    Int32Array,
    UInt8Array,
    build_slots,
    pair_hashes,
)
from ggufc.tokenizer.errors import SpecError
from ggufc.tokenizer.markers import is_marker_text
from ggufc.tokenizer.merging import NumpyMerger, Symbols
from ggufc.tokenizer.pairs import PairTable
from ggufc.tokenizer.rules import MergeRules, rules_from_pairs, rules_from_scores
from ggufc.tokenizer.spec import TokenizerSpec, TokenType

_SPACE_MARK = "\u2581".encode()


@dataclass
class TokenizerSource:
    """A vocabulary as its file gives it.

    `texts` are the tokens as spelled in the file (UTF-8, byte-level alphabet or U+2581 for spaces
    not undone); `merges` pairs of such texts, lowest rank first; the rest as in `TokenizerSpec`.
    """

    kind: str
    pre: str | None
    texts: list[bytes]
    types: UInt8Array
    scores: Float32Array | None = None
    merges: Sequence[tuple[bytes, bytes]] = ()
    special: dict[str, int] = field(default_factory=dict)
    flags: dict[str, Any] = field(default_factory=dict)
    strip: dict[int, str] = field(default_factory=dict)
    stop_ids: tuple[int, ...] = ()
    charsmap: bytes = b""


def build_spec(source: TokenizerSource) -> TokenizerSpec:
    """The spec of a vocabulary. Deterministic; takes seconds for the largest ones."""
    tokens = _token_bytes(source)
    arrays: dict[str, NDArray[Any]] = {
        "token_bytes": np.frombuffer(b"".join(tokens), np.uint8),
        "token_ends": _ends(tokens),
        "types": source.types.astype(np.uint8),
    }
    extra: dict[str, Any] = {}
    if source.kind in ("bpe", "spm", "gemma4"):
        extra = _add_merging(source, tokens, arrays)
    elif source.kind == "unigram":
        if source.scores is None:
            raise SpecError("a unigram vocabulary without scores cannot be encoded with")
        arrays["scores"] = source.scores.astype(np.float32)
        arrays["charsmap"] = np.frombuffer(source.charsmap, np.uint8)
        arrays["byte_ids"] = _byte_ids(source, tokens)
        extra["byte_fallback"] = bool((arrays["byte_ids"] >= 0).all())
    return TokenizerSpec(
        kind=source.kind,
        pre=source.pre,
        arrays=arrays,
        special=dict(source.special),
        strip=dict(source.strip),
        stop_ids=source.stop_ids,
        **source.flags,
        **extra,
    )


def _ends(tokens: list[bytes]) -> NDArray[np.uint32]:
    return np.cumsum([len(token) for token in tokens], dtype=np.int64).astype(np.uint32)


def _token_bytes(source: TokenizerSource) -> list[bytes]:
    """What each token stands for: added tokens as spelled, the others decoded."""
    if source.kind == "bpe":
        decode = byte_alphabet.decode
        tokens = [decode(text) for text in source.texts]
    else:
        tokens = [text.replace(_SPACE_MARK, b" ") for text in source.texts]
    for token in np.flatnonzero(np.isin(source.types, _SPELLED)).tolist():
        tokens[token] = source.texts[token]
    for token in np.flatnonzero(source.types == TokenType.BYTE).tolist():
        tokens[token] = bytes([int(source.texts[token][3:5], 16)])
    return tokens


_SPELLED = (TokenType.CONTROL, TokenType.USER_DEFINED)


def _mergeable(source: TokenizerSource) -> dict[bytes, int]:
    """The tokens that merging may use and make, by spelling; the lowest id of equal ones."""
    barred = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.BYTE, TokenType.USER_DEFINED]
    if source.kind != "bpe":
        barred.append(TokenType.UNUSED)
    usable = np.flatnonzero(~np.isin(source.types, barred)).tolist()
    user = np.flatnonzero(source.types == TokenType.USER_DEFINED).tolist()
    usable += [token for token in user if not is_marker_text(source.texts[token])]
    return {source.texts[token]: token for token in reversed(usable)}


def _add_merging(
    source: TokenizerSource, tokens: list[bytes], arrays: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    ids = _mergeable(source)
    arrays["byte_ids"] = byte_ids = _byte_ids(source, tokens)
    if source.kind != "bpe":
        arrays["char_codes"], arrays["char_ids"] = _char_ids(ids)
    rules = _rules(source, ids)
    arrays.update(rule_arrays(rules, len(tokens)))
    if source.kind == "bpe":
        virtual = [byte_alphabet.decode(text) for text in rules.virtual]
    else:
        virtual = rules.virtual
        arrays["joins"] = _joins([*ids, *virtual])
    arrays["virtual_ids"], arrays["virtual_ends"] = _expansions(virtual, byte_ids)
    missing = np.flatnonzero(byte_ids < 0).tolist()
    bpe = source.kind == "bpe"
    if not bpe and "unk" in source.special:
        arrays["byte_ids"] = np.where(byte_ids < 0, np.int32(source.special["unk"]), byte_ids)
    whole = _whole_tokens(source, tokens, ids, arrays)
    hashes = np.array([crc32(token) for token in tokens], np.uint32)
    arrays["whole_hashes"] = hashes
    arrays["whole_slots"] = _slots_of(whole, hashes)
    return {
        "missing_bytes": tuple(missing) if bpe or "unk" not in source.special else (),
        "byte_fallback": not bpe and not missing,
    }


def _rules(source: TokenizerSource, ids: dict[bytes, int]) -> MergeRules:
    if source.kind != "spm" and source.merges:
        return rules_from_pairs(source.merges, ids, len(source.texts))
    normal = source.types == TokenType.NORMAL
    texts = {text: token for text, token in ids.items() if normal[token]}
    # A byte-level vocabulary without merges is one that merges by token number.
    scores = source.scores if source.kind == "spm" else -np.arange(len(normal), dtype=np.float32)
    if scores is None:
        scores = np.zeros(len(normal), np.float32)
    return rules_from_scores(texts, scores)


def rule_arrays(rules: MergeRules, vocab_size: int) -> dict[str, NDArray[Any]]:
    """The `merge_*`, `rank_simple` and `pair_slots` arrays of these rules."""
    symbols = vocab_size + len(rules.virtual)
    ranks = int(rules.rank[-1]) + 1 if len(rules.rank) else 0
    first_use = np.full(symbols, np.iinfo(np.int32).max, np.int32)
    np.minimum.at(first_use, rules.left, rules.rank)
    np.minimum.at(first_use, rules.right, rules.rank)
    simple = np.ones(ranks, np.uint8)
    np.minimum.at(simple, rules.rank, (first_use[rules.result] > rules.rank).astype(np.uint8))
    return {
        "merge_left": rules.left,
        "merge_right": rules.right,
        "merge_result": rules.result,
        "merge_rank": rules.rank,
        "rank_simple": simple,
        "pair_slots": build_slots(pair_hashes(rules.left, rules.right)),
    }


def _byte_ids(source: TokenizerSource, tokens: list[bytes]) -> Int32Array:
    """The token of each byte: single-byte tokens, or those of type byte."""
    wanted = TokenType.NORMAL if source.kind == "bpe" else TokenType.BYTE
    ids = np.full(256, -1, np.int32)
    for token, kind in enumerate(source.types.tolist()):
        if kind == wanted and len(tokens[token]) == 1 and ids[tokens[token][0]] < 0:
            ids[tokens[token][0]] = token
    return ids


def _char_ids(ids: dict[bytes, int]) -> tuple[NDArray[np.uint32], Int32Array]:
    """The code points that are tokens and their ids; a space stands for U+2581 too."""
    chars: dict[int, int] = {}
    for text, token in ids.items():
        if len(text) <= 4 and len(spelled := text.decode("utf-8", "ignore")) == 1:
            chars.setdefault(ord(" ") if text == _SPACE_MARK else ord(spelled), token)
    if ord(" ") in chars:
        chars[0x2581] = chars[ord(" ")]
    codes = sorted(chars)
    return np.array(codes, np.uint32), np.array([chars[code] for code in codes], np.int32)


def _expansions(texts: list[bytes], byte_ids: Int32Array) -> tuple[Int32Array, NDArray[np.uint32]]:
    """The byte tokens that each virtual symbol ends as; bytes without a token are dropped."""
    lists = [[token for token in byte_ids[list(text)].tolist() if token >= 0] for text in texts]
    flat = [token for tokens in lists for token in tokens]
    ends = np.cumsum([len(tokens) for tokens in lists], dtype=np.int64)
    return np.array(flat, np.int32), ends.astype(np.uint32)


def _whole_tokens(
    source: TokenizerSource,
    tokens: list[bytes],
    ids: dict[bytes, int],
    arrays: dict[str, NDArray[Any]],
) -> list[int]:
    """Tokens whose own text encodes to just them (to be looked up whole, without merging)."""
    normal = source.types == TokenType.NORMAL
    candidates = [token for token in ids.values() if normal[token] and tokens[token]]
    if source.flags.get("ignore_merges"):
        return candidates
    symbols, merger = Symbols(arrays), NumpyMerger(PairTable(arrays))
    whole: list[int] = []
    for start in range(0, len(candidates), _CHUNK):
        chunk = candidates[start : start + _CHUNK]
        initial, lengths = symbols.initial([tokens[token] for token in chunk])
        merged, merged_lengths = merger.merge(initial, lengths)
        starts = np.cumsum(merged_lengths) - merged_lengths
        single = np.flatnonzero(merged_lengths == 1)
        wanted = np.array(chunk, np.int32)[single]
        whole += wanted[merged[starts[single]] == wanted].tolist()
    return whole


_CHUNK = 1 << 16


def _slots_of(rows: list[int], hashes: NDArray[np.uint32]) -> Int32Array:
    """A table over some of the rows."""
    chosen = np.array(sorted(rows), np.int32)
    slots = build_slots(hashes[chosen])
    filled = slots >= 0
    slots[filled] = chosen[slots[filled]]
    return slots


def _joins(texts: Iterable[bytes]) -> UInt8Array:
    """A bitmap over hashes of pairs of neighbouring characters: set where some result of a merge
    has them side by side. Between two characters whose bit is clear nothing ever merges."""
    pairs: set[tuple[str, str]] = set()
    for text in b"\0".join(texts).replace(_SPACE_MARK, b" ").decode("utf-8", "ignore").split("\0"):
        pairs.update(pairwise(text))
    size = max(_LEAST_BITS, 1 << (32 * len(pairs)).bit_length())
    codes = np.array([(ord(a), ord(b)) for a, b in sorted(pairs)], np.int32).reshape(-1, 2)
    bits = np.zeros(size, np.uint8)
    bits[pair_hashes(codes[:, 0], codes[:, 1]) & np.uint32(size - 1)] = 1
    return np.packbits(bits, bitorder="little")


_LEAST_BITS = 1 << 13
