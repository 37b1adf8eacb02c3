"""What the text of an added token says about it: marker, plain text, end of a turn."""

from __future__ import annotations

import re

# Markup that ordinary documents contain. Vocabularies that have these as user-defined tokens
# (Gemma's) mean them as text, so they match in text of any author. <s> is not among them: in most
# vocabularies it begins a text, and </s> ends one.
_HTML_NAMES = frozenset(
    "a abbr article aside audio b bbox blockquote body br button caption center cite code col dd "
    "del div dl dt em embed fieldset figcaption figure font footer form frame h1 h2 h3 h4 h5 h6 "
    "head header hr html i iframe img input ins kbd label legend li link main mark meta nav ol "
    "option p param pre q samp script section select small source span strike strong style sub "
    "summary sup svg table tbody td textarea tfoot th thead time title tr tt u ul var video".split()
)
_TAG = re.compile(r"</?([a-z][a-z0-9]*) ?/?>")
_BRACKETED = re.compile(r"[<\[＜【].*[>\]＞】]", re.DOTALL)


def is_markup(text: bytes) -> bool:
    """Whether a token is written in angle or square brackets."""
    return bool(_BRACKETED.fullmatch(text.decode("utf-8", "replace").strip()))


def is_marker_text(text: bytes) -> bool:
    """Whether a user-defined token is a marker: neither white space nor plain text.

    A marker is written like one: in angle or square brackets, or with a bar or U+2581 of its own.
    HTML's own tags are plain text.
    """
    spelled = text.decode("utf-8", "replace").strip()
    tag = _TAG.fullmatch(spelled)
    if tag and tag.group(1) in _HTML_NAMES:
        return False
    return bool(_BRACKETED.fullmatch(spelled)) or ("|" in spelled and len(spelled) > 3)


# Tokens that end a turn or a document in the families that have them. `</s>` is not among them:
# it is ordinary text in several vocabularies, and where it does end a turn it is the eos token.
_END_TEXTS = frozenset(
    text.encode()
    for text in (
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<end_of_turn>",
        "<|end|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<end_of_utterance>",
        "<turn|>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "[e~[",
        "<|END_OF_TURN_TOKEN|>",
        "<|endofturn|>",
        "<|eot|>",
        "<|eom|>",
    )
)
# Inside a harmony message <|end|> only closes one of several messages of the same turn.
_HARMONY = ({b"<|return|>", b"<|call|>"}, {b"<|flush|>", b"<|calls|>"})
_TOOL_RESPONSE = b"<|tool_response>"

# ChatML's markers, which converted files sometimes leave as ordinary tokens.
CHATML_TEXTS = (b"<|im_start|>", b"<|im_end|>")


def end_texts() -> list[str]:
    """The texts of all well-known end-of-turn tokens."""
    return sorted(text.decode() for text in _END_TEXTS | {_TOOL_RESPONSE})


def end_of_turn_ids(ids: dict[bytes, int]) -> list[int]:
    """Well-known end-of-turn tokens of a vocabulary, given as text to id."""
    texts = {text for text in _END_TEXTS if text in ids}
    if any(family <= texts for family in _HARMONY):
        texts.discard(b"<|end|>")
    if b"<turn|>" in texts and _TOOL_RESPONSE in ids:
        texts.add(_TOOL_RESPONSE)
    return sorted(ids[text] for text in texts)
