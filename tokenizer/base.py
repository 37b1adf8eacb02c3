"""Tokenizer: text to ids and back, over one vocabulary and one model of merging.

Four ways to read text, `control_tokens`:

* "native": control tokens and markers in the text become their single ids, and the text is
  normalised as the model was trained with. For trusted text.
* "control-only": control tokens are ordinary characters, everything else as native.
* "literal": as control-only, and the text is taken as it is, without normalisation.
* "reject": as literal, but a text that spells a control token is refused.

User-defined tokens match in all of them; `encode_marked` tells apart who wrote each character.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import filterfalse
from typing import Protocol

from ggufc.tokenizer.dropped import Dropped, dropped_when_normalized, normalize_nfc
from ggufc.tokenizer.errors import ControlTokenInTextError, TokenizerError, refuse_dropped
from ggufc.tokenizer.markers import is_marker_text
from ggufc.tokenizer.provenance import POLICIES, Policy, Provenance
from ggufc.tokenizer.spec import TokenizerSpec, TokenType
from ggufc.tokenizer.special_tokens import AddedTokens, Match
from ggufc.tokenizer.text import cleaned_up, valid_text


class Model(Protocol):
    """How a stretch of text without added tokens becomes ids."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, each by itself."""

    def refine(self, text: str) -> list[str | int]:
        """The text with what the model takes out of it before encoding."""

    def lost(self, text: str) -> Dropped:
        """(byte offset, value) of the bytes of a text that no token stands for."""


@dataclass(frozen=True)
class Encoding:
    """Ids and what is to be told about them.

    `dropped_bytes`: (byte offset in the text's UTF-8, value) of bytes that the vocabulary has no
    token for; `control_in_content`: (character offset, id) of control tokens spelled by content.
    """

    ids: list[int]
    dropped_bytes: list[tuple[int, int]] = field(default_factory=list)
    control_in_content: list[tuple[int, int]] = field(default_factory=list)


class Tokenizer:
    """Encodes and decodes. Safe to use from several threads."""

    def __init__(self, spec: TokenizerSpec, model: Model) -> None:
        self.spec = spec
        self._model = model
        self._types = spec.types
        self._bytes = spec.arrays["token_bytes"].data
        self._ends = spec.arrays["token_ends"].data

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self._ends)

    @property
    def bos_id(self) -> int | None:
        """The token that begins a text, None where the vocabulary has none."""
        return self.spec.special.get("bos")

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end a turn: eos, eot, eom and the well-known ones of the vocabulary."""
        return frozenset(self.spec.stop_ids)

    # Encoding

    def encode(
        self,
        text: str | bytes,
        *,
        control_tokens: str = "native",
        add_special: bool = True,
    ) -> list[int]:
        """The ids of a text; bytes may hold anything, a str no surrogates (TextError).

        `add_special` adds the begin and end tokens that the vocabulary asks for.
        """
        return self._encode(text, control_tokens, add_special).ids

    def encode_with_details(
        self,
        text: str | bytes,
        *,
        control_tokens: str = "native",
        add_special: bool = True,
        strict: bool = False,
    ) -> Encoding:
        """As `encode`, with the bytes that were dropped.

        `strict`: raises DroppedBytesError instead where any are.
        """
        encoding = self._encode(text, control_tokens, add_special)
        if strict:
            refuse_dropped(encoding.dropped_bytes)
        return encoding

    def encode_marked(
        self,
        text: str,
        authored_by_template: Sequence[bool] | bytes,
        *,
        policy: Policy = "literal",
        assistant: Sequence[bool] | bytes | None = None,
        add_special: bool = False,
    ) -> Encoding:
        """The ids of a rendered prompt, of which the template wrote some characters.

        `authored_by_template` and `assistant` have one entry a character: written by the template;
        written by the assistant in an earlier turn. A control token is matched only where the
        template wrote every character of it; a marker under "literal" and "reject" only where
        template or assistant did, under "control-only" anywhere; "native" matches everything.
        The text between two matches is split and merged in one piece, whoever wrote it.
        """
        valid_text(text)
        marks = Provenance(text, authored_by_template, assistant, policy)
        permit = None if policy == "native" else marks.permit(self.is_control, self.is_marker)
        encoding = self._assemble(text, self._native_tokens.find(text, permit), True)
        forged = [
            (match.start, match.token)
            for match in self._control_tokens.every(text)
            if marks.has_content(match.start, match.end)
        ]
        ids = self.with_special(encoding.ids) if add_special else encoding.ids
        return Encoding(ids, encoding.dropped_bytes, forged)

    def find_control_tokens(self, text: str) -> list[tuple[int, int]]:
        """(character offset, id) of every control token spelled in the text."""
        found = self._control_tokens.every(valid_text(text))
        return [(match.start, match.token) for match in found]

    def _encode(self, text: str | bytes, mode: str, add_special: bool) -> Encoding:
        if mode not in POLICIES:
            raise TokenizerError(f"control_tokens is {mode!r:.60}, allowed: {', '.join(POLICIES)}")
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogateescape")
        else:
            valid_text(text)
        for spelled in self._control_tokens.every(text) if mode == "reject" else ():
            raise ControlTokenInTextError(self.token_text(spelled.token), spelled.start)
        added = self._native_tokens if mode == "native" else self._user_tokens
        encoding = self._assemble(text, added.find(text), mode in ("native", "control-only"))
        if add_special:
            return Encoding(self.with_special(encoding.ids), encoding.dropped_bytes)
        return encoding

    def _assemble(self, text: str, matches: Iterator[Match], normalize: bool) -> Encoding:
        """Ids of the matches and of the text between them."""
        items: list[str | int] = []
        dropped: Dropped = []
        position = 0
        for match in [*matches, Match(len(text), len(text), -1)]:
            if match.start > position:
                between = text[position : match.start]
                dropped += self._dropped(text, position, between, normalize)
                items += self._model.refine(self._normalized(between, normalize))
            if match.token >= 0:
                items.append(match.token)
            position = match.end
        return Encoding(self._joined(items), dropped)

    def _joined(self, items: list[str | int]) -> list[int]:
        encoded = iter(self._model.encode([item for item in items if isinstance(item, str)]))
        ids: list[int] = []
        for item in items:
            if isinstance(item, int):
                ids.append(item)
            else:
                ids += next(encoded)
        return ids

    def _normalized(self, text: str, normalize: bool) -> str:
        return normalize_nfc(text) if normalize and self.spec.nfc else text

    def _dropped(self, text: str, start: int, between: str, normalize: bool) -> Dropped:
        if not self.spec.missing_bytes:
            return []
        lost = self._model.lost
        normal = normalize and self.spec.nfc
        found = dropped_when_normalized(between, lost) if normal else lost(between)
        base = len(text[:start].encode("utf-8", "surrogateescape")) if found else 0
        return [(base + offset, value) for offset, value in found]

    def with_special(self, ids: list[int]) -> list[int]:
        """The ids of a text between the begin and end tokens that the vocabulary asks for."""
        special, spec = self.spec.special, self.spec
        head = [special["bos"]] if spec.add_bos and "bos" in special else []
        tail = [special["eos"]] if spec.add_eos and "eos" in special else []
        if spec.add_sep and not tail and "sep" in special:
            tail = [special["sep"]]
        return [*head, *ids, *tail]

    # Added tokens

    @cached_property
    def _native_tokens(self) -> AddedTokens:
        return self._added((TokenType.CONTROL, TokenType.USER_DEFINED))

    @cached_property
    def _user_tokens(self) -> AddedTokens:
        return self._added((TokenType.USER_DEFINED,))

    @cached_property
    def _control_tokens(self) -> AddedTokens:
        return self._added((TokenType.CONTROL,))

    def _added(self, types: tuple[TokenType, ...]) -> AddedTokens:
        ids = [int(i) for kind in types for i in (self._types == kind).nonzero()[0]]
        if TokenType.CONTROL in types and "unk" in self.spec.special:
            ids.append(self.spec.special["unk"])
        texts = [(self.token_text(token), token) for token in ids]
        if self.spec.kind in ("spm", "gemma4"):
            texts = [pair for text, token in texts for pair in self._spellings(text, token)]
        return AddedTokens(texts, self.spec.strip)

    def _spellings(self, text: str, token: int) -> Iterator[tuple[str, int]]:
        """How an added token is spelled where spaces are marks. A run of spaces of a vocabulary of
        kind spm is found only as marks: its model takes out spaces, with the marks beside them."""
        is_run = len(text) > 1 and not text.strip(" ")
        is_refined = self.spec.kind == "spm" and self.token_type(token) == TokenType.USER_DEFINED
        if not (is_run and is_refined):
            yield text, token
        if is_run:
            yield "\u2581" * len(text), token

    # Tokens

    def token_bytes(self, token: int) -> bytes:
        """What one token stands for; empty for ids outside the vocabulary. Raises TokenizerError
        for what is no id."""
        try:
            if not 0 <= token < len(self._ends):
                return b""
        except TypeError:
            raise TokenizerError(f"token is {token!r:.40}; allowed: an integer") from None
        start = self._ends[token - 1] if token else 0
        return bytes(self._bytes[start : self._ends[token]])

    def token_text(self, token: int) -> str:
        """What one token stands for, as text; bytes that are no character become U+FFFD."""
        return self.token_bytes(token).decode("utf-8", "replace")

    def token_type(self, token: int) -> TokenType:
        """The type of one token; UNUSED for ids outside the vocabulary and unknown types."""
        if 0 <= token < len(self._types) and 1 <= self._types[token] <= TokenType.BYTE:
            return TokenType(int(self._types[token]))
        return TokenType.UNUSED

    def is_control(self, token: int) -> bool:
        """Whether a token is a control token: the vocabulary's own type, or the unknown token."""
        kind = self.token_type(token)
        return kind == TokenType.CONTROL or (
            kind == TokenType.UNKNOWN and token == self.spec.special.get("unk")
        )

    def is_marker(self, token: int) -> bool:
        """Whether a token is a user-defined one that is neither white space nor plain text."""
        kind = self.token_type(token)
        return kind == TokenType.USER_DEFINED and is_marker_text(self.token_bytes(token))

    # Decoding

    def decode(self, ids: Iterable[int], *, skip_control: bool = False) -> bytes:
        """What the tokens stand for, end to end; ids outside the vocabulary are skipped, and with
        `skip_control` control tokens. Raises TokenizerError for what are no ids."""
        try:
            kept = filterfalse(self.is_control, ids) if skip_control else ids
            return b"".join(map(self.token_bytes, kept))
        except (TypeError, TokenizerError):
            raise TokenizerError(f"ids are {ids!r:.40}; allowed: a list of integers") from None

    def decode_text(
        self, ids: Sequence[int], *, skip_control: bool = False, clean_up: bool = False
    ) -> str:
        """The text of a whole sequence; each invalid byte sequence becomes one U+FFFD.

        Undoes the space that encoding puts before a text. `skip_control` leaves control tokens
        out; `clean_up` tidies the spaces before punctuation, for families that ask for it.
        """
        text = self.decode(ids, skip_control=skip_control).decode("utf-8", "replace")
        if self.spec.add_space_prefix and text.startswith(" "):
            text = text[1:]
        return cleaned_up(text) if clean_up and self.spec.clean_up else text
