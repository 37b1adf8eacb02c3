"""Small vocabularies, as metadata: for tests that need a certain token, merge or key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ggufc.compiler.tokenizer_import import import_tokenizer
from ggufc.tokenizer import Tokenizer, create_tokenizer

Metadata = dict[str, Any]

PREFIX = "tokenizer.ggml."
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level(
    tokens: Sequence[str], merges: Sequence[str], control: Sequence[str] = (), **keys: Any
) -> Metadata:
    """A byte-level vocabulary; `control` tokens follow the others, `keys` are further keys."""
    metadata: Metadata = {
        PREFIX + "model": "gpt2",
        PREFIX + "pre": "gpt-2",
        PREFIX + "tokens": [*tokens, *control],
        PREFIX + "token_type": [1] * len(tokens) + [3] * len(control),
        PREFIX + "merges": list(merges),
    }
    return changed(metadata, **keys)


def sentencepiece(tokens: Sequence[str], user: Sequence[str] = (), **keys: Any) -> Metadata:
    """A SentencePiece vocabulary: unknown, begin, end and byte tokens first; earlier tokens score
    higher; `user` tokens are user-defined."""
    head = ["<unk>", "<s>", "</s>", *BYTE_TOKENS]
    texts = [*head, *tokens, *user]
    metadata: Metadata = {
        PREFIX + "model": "llama",
        PREFIX + "tokens": texts,
        PREFIX + "scores": [0.0] * len(head) + [-float(i) for i in range(len(texts) - len(head))],
        PREFIX + "token_type": [2, 3, 3] + [6] * 256 + [1] * len(tokens) + [4] * len(user),
        PREFIX + "bos_token_id": 1,
        PREFIX + "eos_token_id": 2,
        PREFIX + "unknown_token_id": 0,
    }
    return changed(metadata, **keys)


def changed(metadata: Metadata, **keys: Any) -> Metadata:
    """The metadata with some keys set, by their last part; None takes a key away."""
    result = {**metadata, **{PREFIX + name: value for name, value in keys.items()}}
    return {key: value for key, value in result.items() if value is not None}


def tokenizer_of(metadata: Metadata) -> Tokenizer:
    """The tokenizer of a vocabulary."""
    return create_tokenizer(import_tokenizer(metadata))


def texts_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """What each id stands for."""
    return [tokenizer.token_text(token) for token in ids]
