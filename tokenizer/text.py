"""Small things done to texts and ids before and after encoding."""

from __future__ import annotations

from ggufc.tokenizer.errors import TextError, TokenizerError


def valid_text(text: str) -> str:
    """The text itself. Raises TokenizerError for what is no text, and TextError where half a
    surrogate pair stands in it."""
    if not isinstance(text, str):
        found = type(text).__name__
        raise TokenizerError(f"text is {text!r:.40}, of type {found}; allowed: str, bytes")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextError(
            f"text has U+{ord(text[error.start]):04X}, half of a surrogate pair, at character "
            f"{error.start}: it is not a character",
            error.start,
        ) from None
    return text


_CLEAN_UPS = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


def cleaned_up(text: str) -> str:
    """The text without the spaces that some vocabularies put before punctuation."""
    for spaced, tidy in _CLEAN_UPS:
        text = text.replace(spaced, tidy)
    return text


def fused(ids: list[int], token: int) -> list[int]:
    """The ids with neighbouring occurrences of one token as one."""
    if ids.count(token) < 2:
        return ids
    return [t for i, t in enumerate(ids) if not (i and t == token == ids[i - 1])]
