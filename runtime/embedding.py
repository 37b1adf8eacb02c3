"""Embeddings: texts to vectors, by whichever graph the model has for that."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np

from ggufc.runtime.arguments import (
    check_choice,
    check_flag,
    check_integer,
    check_iterable,
    check_names,
    refuse,
    texts_of,
)
from ggufc.runtime.bundle import EMBED, PREFILL
from ggufc.runtime.engine import Engine, Floats, Ints, as_ids
from ggufc.runtime.errors import ArgumentError, ContextError, EmbeddingError
from ggufc.runtime.session_pool import SessionPool
from ggufc.tokenizer.base import Tokenizer
from ggufc.tokenizer.provenance import POLICIES, Policy

POOLINGS = ("none", "mean", "cls", "last")
DEFAULT_POOLING = "mean"


@dataclass(frozen=True)
class EmbeddingOptions:
    """How texts become vectors. Raises ArgumentError for an illegal value.

    `pooling` makes one vector of those of all tokens: their `mean`, the first (`cls`) or the
    `last`; `none` leaves them all. None takes what the model's file asks for, `mean` where it says
    nothing. Of each vector the first `dimensions` numbers are kept (None: all) and, if `normalize`,
    divided by the vector's length. `truncate` cuts texts that are too long, which otherwise are
    errors. `control_tokens` says what control tokens in texts become."""

    pooling: str | None = None
    normalize: bool = True
    truncate: bool = False
    dimensions: int | None = None
    control_tokens: Policy = "control-only"

    def __post_init__(self) -> None:
        if self.pooling is not None:
            check_choice("pooling", self.pooling, POOLINGS)
        check_flag("normalize", self.normalize)
        check_flag("truncate", self.truncate)
        check_choice("control_tokens", self.control_tokens, POLICIES)


class EmbeddingSettings(TypedDict, total=False):
    """How to make embeddings; see `EmbeddingOptions` for meaning and defaults."""

    pooling: str | None
    normalize: bool
    truncate: bool
    dimensions: int | None
    control_tokens: Policy


class Embedder:
    """Makes embeddings with a loaded model."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        sessions: SessionPool,
        options: EmbeddingOptions,
    ) -> None:
        """Raises PurposeError for a model without embeddings, ArgumentError for dimensions that
        it has not."""
        engine.check_graph(EMBED)
        self._engine, self._tokenizer, self._sessions = engine, tokenizer, sessions
        self._options = options
        facts = engine.manifest.embedding
        self._width = facts.width
        self.pooling = options.pooling or facts.pooling or DEFAULT_POOLING
        self.dimensions = facts.width if options.dimensions is None else options.dimensions
        check_integer("dimensions", self.dimensions, 1, facts.width)

    def tokens(self, texts: Iterable[str]) -> list[Ints]:
        """The token ids of each text, those included that begin and end it. Raises ContextError
        for a text that is too long, ArgumentError for one without tokens."""
        given = texts_of("texts", texts)
        return [
            self.tokens_of(text, f"text {i} of {len(given)}") for i, text in enumerate(given, 1)
        ]

    def tokens_of(self, text: str, what: str) -> Ints:
        """As `tokens`, of one text, which errors call `what`."""
        return as_ids(self._fitted(text, what), self._engine.vocab_size)

    def _fitted(self, text: str, what: str) -> list[int]:
        encode, limit = self._tokenizer.encode, self._engine.context
        content = encode(text, control_tokens=self._options.control_tokens, add_special=False)
        ids = self._tokenizer.with_special(content)
        if len(ids) > limit and self._options.truncate:
            room = max(0, limit - (len(ids) - len(content)))
            return self._tokenizer.with_special(content[:room])[:limit]
        if len(ids) > limit:
            raise ContextError(
                f"{what}: {len(ids)} tokens do not fit a context of {limit}; truncate it, or split"
                " it and embed its parts"
            )
        if not ids:
            raise ArgumentError(f"{what}: it has no tokens, so there is nothing to embed")
        return ids

    def embed(self, tokens: Iterable[Sequence[int] | Ints]) -> Iterator[Floats]:
        """The embedding of each text: float32 [dimensions], without pooling [tokens, dimensions].

        No bit of it depends on the other texts, of which no more are asked for, and held, than are
        computed together. Raises EmbeddingError, and ArgumentError and ContextError for what are
        no tokens of a text that fits."""
        check_iterable("tokens", tokens, "a list of token ids for each text")
        return self._embedded(self._checked(ids, i) for i, ids in enumerate(tokens))

    def _checked(self, ids: Sequence[int] | Ints, index: int) -> Ints:
        checked, limit = as_ids(ids, self._engine.vocab_size), self._engine.context
        if not 1 <= len(checked) <= limit:
            raise ContextError(f"tokens[{index}]: {len(checked)} tokens; 1 to {limit} fit")
        return checked

    def _embedded(self, tokens: Iterable[Ints]) -> Iterator[Floats]:
        causal = PREFILL in self._engine.manifest.graphs
        made = map(self._from_cache, tokens) if causal else self._from_batches(tokens)
        for number, rows in enumerate(made, 1):
            if not np.isfinite(rows).all():
                raise EmbeddingError(f"text {number}: the model's embedding is not finite")
            yield self._finished(rows)

    def _finished(self, rows: Floats) -> Floats:
        """Pooled, cut and normalised."""
        out = rows.mean(axis=0, dtype=np.float64)[None] if self.pooling == "mean" else rows
        out = out[:, : self.dimensions].astype(np.float64)
        if self._options.normalize:
            length = np.sqrt((out * out).sum(axis=1, keepdims=True))
            out = np.divide(out, length, out=np.zeros_like(out), where=length > 0)
        finished: Floats = out.astype(np.float32)
        return finished if self.pooling == "none" else finished[0]

    def _wanted(self, length: int) -> Ints:
        """The tokens of a text whose embeddings the pooling needs."""
        if self.pooling == "cls":
            return np.zeros(1, np.int32)
        first = length - 1 if self.pooling == "last" else 0
        return np.arange(first, length, dtype=np.int32)

    def _from_cache(self, ids: Ints) -> Floats:
        """Embeddings of the wanted tokens of a text, by a model that sees the tokens before."""
        wanted = self._wanted(len(ids))
        out = np.empty((len(wanted), self._width), np.float32)
        step = self._engine.manifest.limits.tokens
        with self._sessions.borrow(()) as session:
            session.clear()
            for start in range(0, len(ids), step):
                part = ids[start : start + step]
                stop = start + len(part)
                positions = np.arange(start, stop, dtype=np.int32)
                sequences, lengths = (
                    np.full(len(part), n, np.int32) for n in (session.index, len(ids))
                )
                inside = (wanted >= start) & (wanted < stop)
                rows, target = wanted[inside] - np.int32(start), np.flatnonzero(inside)
                into = out[target[0] : target[0] + len(rows)] if len(rows) else out[:0]
                self._engine.embed(part, positions, sequences, lengths, rows, into)
        return out

    def _from_batches(self, tokens: Iterable[Ints]) -> Iterator[Floats]:
        """Embeddings of the wanted tokens of each text, by an encoder, many texts at once."""
        for batch in batches(tokens, self._engine.manifest.limits.tokens):
            sizes = [len(ids) for ids in batch]
            starts = np.cumsum([0, *sizes[:-1]])
            wanted = [self._wanted(size) for size in sizes]
            rows = [own + np.int32(start) for own, start in zip(wanted, starts, strict=True)]
            out = np.empty((sum(map(len, rows)), self._width), np.float32)
            self._engine.embed(
                np.concatenate(batch),
                np.concatenate([np.arange(size, dtype=np.int32) for size in sizes]),
                np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
                np.repeat(np.array(sizes, np.int32), sizes),
                np.concatenate(rows),
                out,
            )
            yield from np.split(out, np.cumsum([len(own) for own in wanted])[:-1])


def batches(tokens: Iterable[Ints], most: int) -> Iterator[list[Ints]]:
    """Texts in their order, as many together as have no more than `most` tokens."""
    batch: list[Ints] = []
    for ids in tokens:
        if batch and sum(map(len, batch)) + len(ids) > most:
            yield batch
            batch = []
        batch.append(ids)
    if batch:
        yield batch


class EmbeddingMethods(ABC):
    """What a model offers for embeddings."""

    engine: Engine
    _sessions: SessionPool

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """Text to ids and back."""

    def embed(self, texts: str | Iterable[str], **settings: Unpack[EmbeddingSettings]) -> Floats:
        """The embedding of a text, float32 [dimensions], or of each of several [len(texts),
        dimensions], by default of length 1. Raises ContextError for a text that is too long,
        ArgumentError, TokenizerError, EmbeddingError."""
        embedder = self.embedder(**settings)
        if embedder.pooling == "none":
            raise ArgumentError(
                "pooling none gives a vector for each token: use embed_tokens, or choose a pooling"
                " of mean, cls and last"
            )
        one = isinstance(texts, str)
        tokens = embedder.tokens([texts] if isinstance(texts, str) else texts)
        rows = np.empty((len(tokens), embedder.dimensions), np.float32)
        for i, row in enumerate(embedder.embed(tokens)):
            rows[i] = row
        return rows[0] if one else rows

    def embed_tokens(
        self, texts: Iterable[str], **settings: Unpack[EmbeddingSettings]
    ) -> list[Floats]:
        """The embeddings of the tokens of each text, those included that begin and end it: float32
        [tokens, dimensions]. Raises as `embed`."""
        if (pooling := settings.setdefault("pooling", "none")) not in (None, "none"):
            refuse("pooling", pooling, "none for the vectors of tokens; embed has the others")
        settings["pooling"] = "none"
        embedder = self.embedder(**settings)
        return list(embedder.embed(embedder.tokens(texts)))

    def embedder(self, **settings: Unpack[EmbeddingSettings]) -> Embedder:
        """What makes embeddings in two steps: texts to tokens, tokens to vectors."""
        check_names(settings, EmbeddingSettings)
        options = EmbeddingOptions(**settings)
        return Embedder(self.engine, self.tokenizer, self._sessions, options)
