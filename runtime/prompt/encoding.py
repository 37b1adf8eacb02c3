"""From a rendered prompt to token ids, by one of the policies for control tokens in content."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from ggufc.runtime.prompt.chat import refuse_media
from ggufc.runtime.prompt.errors import ControlTokenError, RequestError
from ggufc.runtime.prompt.rendered import Rendered
from ggufc.runtime.prompt.sources import Author
from ggufc.tokenizer.base import Encoding, Tokenizer
from ggufc.tokenizer.errors import TextError, refuse_dropped
from ggufc.tokenizer.provenance import POLICIES, Policy

DEFAULT_POLICY: Policy = "literal"
_SCANNED = ("messages[", "tools[")
_SPECIAL_TOKENS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


@dataclass(frozen=True)
class SpelledToken:
    """A control token that content spells: the path of the content and the token's text."""

    path: str
    token: str


@dataclass(frozen=True)
class EncodedPrompt:
    """The ids of a prompt, what content spelled, and (byte offset, value) of dropped bytes."""

    ids: list[int]
    spelled: list[SpelledToken] = field(default_factory=list)
    dropped_bytes: list[tuple[int, int]] = field(default_factory=list)


def checked_policy(policy: str) -> Policy:
    """The policy of that name. Raises RequestError."""
    if not isinstance(policy, str) or policy not in POLICIES:
        raise RequestError(f"control_tokens is {policy!r:.60}, allowed are {', '.join(POLICIES)}")
    return cast(Policy, policy)


def encode_prompt(
    rendered: Rendered,
    tokenizer: Tokenizer,
    policy: str = DEFAULT_POLICY,
    *,
    complete: bool = True,
    strict: bool = False,
) -> EncodedPrompt:
    """The ids of a rendered prompt.

    `complete` puts the begin token in front where the vocabulary asks for it and the template
    does not write it. Raises ControlTokenError under `reject`, RequestError for a part that is no
    text and for a policy that does not exist, and with `strict` DroppedBytesError for bytes that
    the vocabulary has no token for.
    """
    chosen = checked_policy(policy)
    refuse_media(rendered.media)
    encoding = _encoded(rendered, tokenizer, chosen)
    spelled = spelled_tokens(rendered, tokenizer, encoding)
    if chosen == "reject" and spelled:
        raise ControlTokenError(spelled[0].path, spelled[0].token)
    if strict:
        refuse_dropped(encoding.dropped_bytes)
    ids = with_begin(encoding.ids, tokenizer) if complete else encoding.ids
    return EncodedPrompt(ids, spelled, encoding.dropped_bytes)


def _encoded(rendered: Rendered, tokenizer: Tokenizer, policy: Policy) -> Encoding:
    try:
        return tokenizer.encode_marked(
            rendered.text,
            rendered.mask(Author.TEMPLATE),
            policy=policy,
            assistant=rendered.mask(Author.ASSISTANT),
        )
    except TextError as error:
        raise RequestError(f"the rendered prompt cannot be encoded: {error}") from None


def with_begin(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """The ids with exactly one begin token in front, if the vocabulary asks for one."""
    begin = tokenizer.bos_id
    if not tokenizer.spec.add_bos or begin is None or ids[:1] == [begin]:
        return ids
    return [begin, *ids]


def spelled_tokens(
    rendered: Rendered, tokenizer: Tokenizer, encoding: Encoding
) -> list[SpelledToken]:
    """The control tokens that strings and keys of messages and tools spell, then those that only
    the rendered text has over content; each path and token once."""
    found: dict[SpelledToken, None] = {}
    for source in rendered.sources:
        if not source.path.startswith(_SCANNED):
            continue
        for _, token in tokenizer.find_control_tokens(source.text):
            found[SpelledToken(source.path, token_text(tokenizer, token))] = None
    known = {spelled.token for spelled in found}
    for start, token in encoding.control_in_content:
        text = token_text(tokenizer, token)
        paths = rendered.paths(start, start + len(text))
        if text not in known or len(paths) > 1:
            found[SpelledToken(" + ".join(paths), text)] = None
    return list(found)


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """What a token stands for, as text."""
    return tokenizer.token_bytes(token).decode("utf-8", "replace")


def special_tokens(tokenizer: Tokenizer) -> dict[str, str]:
    """The variables `bos_token`, `eos_token`, ... that templates read."""
    special = tokenizer.spec.special
    return {
        f"{name}_token": token_text(tokenizer, special[name])
        for name in _SPECIAL_TOKENS
        if name in special
    }
