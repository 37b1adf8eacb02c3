"""Batches: generations that are decoded together, so that each step reads the weights once.

A sequence joins as soon as another one leaves. What it produces does not depend on the others, bit
for bit: the graphs work on each token by itself, each generation draws from random numbers of its
own, and of what a session holds from earlier only tokens of prompts are used again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Unpack

import numpy as np

from ggufc.runtime.arguments import (
    check_choice,
    check_instance,
    check_iterable,
    refuse,
    shown,
    token_ids,
)
from ggufc.runtime.bundle import PREFILL
from ggufc.runtime.engine import Engine, within
from ggufc.runtime.errors import ArgumentError, RunError
from ggufc.runtime.generate import (
    Event,
    Generation,
    GenerationOptions,
    Generator,
    TextStream,
    check_prompt,
)
from ggufc.runtime.session import Session, common_prefix, decode_together
from ggufc.runtime.session_pool import SessionPool
from ggufc.runtime.settings import Settings, options_of
from ggufc.tokenizer.base import Tokenizer
from ggufc.tokenizer.provenance import POLICIES, Policy
from ggufc.tokenizer.streaming import StreamDecoder

Prompt = str | Sequence[int]
# Copying so many rows of a cache, or more, from a sequence of the batch pays.
MIN_SHARED = 16


@dataclass(frozen=True)
class Request:
    """A prompt, as token ids, and how to go on from it. Raises ArgumentError for other types."""

    prompt: Sequence[int]
    options: GenerationOptions

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", token_ids("prompt", self.prompt))
        check_instance("options", self.options, GenerationOptions)


@dataclass(frozen=True)
class BatchEvent:
    """One step of request number `index`: text that may be shown now (often empty); with its last
    event the result, or the error that ended it."""

    index: int
    text: str = ""
    result: Generation | None = None
    error: Exception | None = None


# What a batch is asked for: a request, an error in its place, which is handed on, or None where
# there is none for now (there has to be one, or an end, once all before it have ended).
Wanted = Request | Exception | None


class Batch:
    """Runs requests, as many at once as `sequences`."""

    def __init__(
        self,
        pool: SessionPool,
        engine: Engine,
        streams: Callable[[], TextStream],
        end_tokens: Mapping[int, str],
        sequences: int | None = None,
    ) -> None:
        """`streams` makes what turns the tokens of one generation into text. None is as many
        sequences as the engine has. Raises ContextError."""
        self._pool, self._engine = pool, engine
        self._streams, self._end_tokens = streams, end_tokens
        self._limit = within("sequences", sequences, engine.sequences)
        self._logits = np.empty((self._limit, engine.vocab_size), np.float32)
        self._active: dict[int, Generator] = {}
        self._held: Request | Exception | None = None
        self._count = 0

    def run(self, requests: Iterable[Wanted]) -> Iterator[BatchEvent]:
        """Events of all requests, each numbered by its place; a request is asked for only when it
        can begin. Raises ArgumentError, at once, for what holds no requests."""
        check_iterable("requests", requests, "a list of requests, or what iterates over them")
        return self._events(iter(requests))

    def _events(self, waiting: Iterator[Wanted]) -> Iterator[BatchEvent]:
        try:
            while True:
                yield from self._admit(waiting)
                if not self._active:
                    return
                yield from self._step()
        finally:
            for index in list(self._active):
                self._leave(index)

    def _admit(self, waiting: Iterator[Wanted]) -> Iterator[BatchEvent]:
        """Begin requests while there is room for them."""
        while len(self._active) < self._limit:
            request = self._held or checked(next(waiting, None), self._count)
            if request is None:
                return
            session = None
            if isinstance(request, Request):
                session = self._pool.take(request.prompt, wait=not self._active)
            self._held = request
            if isinstance(request, Exception):
                yield BatchEvent(self._next(), error=request)
            elif session is None:
                return
            else:
                yield from self._begin(self._next(), request, session)

    def _next(self) -> int:
        """The number of the next request."""
        self._held, self._count = None, self._count + 1
        return self._count - 1

    def _begin(self, index: int, request: Request, session: Session) -> Iterator[BatchEvent]:
        prompt = request.prompt
        generator = Generator(session, prompt, self._streams(), self._end_tokens, request.options)
        self._active[index] = generator

        def events() -> Iterator[Event]:
            check_prompt(len(prompt), self._engine)
            self._share(prompt, session)
            yield from generator.begin(prefilled_only=True)

        yield from self._watched(index, events())

    def _share(self, prompt: Sequence[int], session: Session) -> None:
        """Copy the beginning of the prompt from a sequence of the batch, where that has more of it
        than the session itself."""
        others = [g.session for g in self._active.values() if g.session is not session]
        shared = [common_prefix(other.ids[: other.prefilled], prompt[:-1]) for other in others]
        most = max(shared, default=0)
        if most >= min(session.reusable(prompt), session.prefilled) + MIN_SHARED:
            session.copy_from(others[shared.index(most)], most)

    def _step(self) -> Iterator[BatchEvent]:
        """One token of every sequence."""
        running = dict(self._active)
        tokens = [g.pending for g in running.values() if g.pending is not None]
        logits = self._logits[: len(running)]
        decode_together([g.session for g in running.values()], tokens, logits)
        for row, (index, generator) in zip(logits, running.items(), strict=True):
            yield from self._watched(index, generator.take(row))

    def _watched(self, index: int, events: Iterator[Event]) -> Iterator[BatchEvent]:
        """Events of one sequence, which leaves after the last one. An error of its own ends only
        this one."""
        generator = self._active[index]
        try:
            for event in events:
                yield BatchEvent(index, event.text)
            if generator.pending is not None:
                return
            for event in generator.finish():
                yield BatchEvent(index, event.text, event.result)
        except RunError as error:
            self._leave(index)
            yield BatchEvent(index, error=error)
            return
        self._leave(index)

    def _leave(self, index: int) -> None:
        self._pool.give_back(self._active.pop(index).session)


def checked(item: Any, index: int) -> Wanted:
    """What a batch was given as request number `index`; in place of what is none, an error."""
    if item is None or isinstance(item, Request | Exception):
        return item
    return ArgumentError(
        f"requests[{index}] {shown(item)}: expected a Request, an exception in its place, or None"
    )


def all_results(events: Iterator[BatchEvent]) -> list[Generation]:
    """The results of a batch in the order of its requests. Raises the first error."""
    found: dict[int, Generation] = {}
    for event in events:
        if event.error is not None:
            raise event.error
        if event.result is not None:
            found[event.index] = event.result
    return [found[index] for index in sorted(found)]


class BatchMethods(ABC):
    """What a model offers for many prompts at once."""

    engine: Engine
    _sessions: SessionPool

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """Text to ids and back."""

    @property
    @abstractmethod
    def end_tokens(self) -> dict[int, str]:
        """The tokens that end a generation, with their text."""

    @abstractmethod
    def encode_text(self, text: Prompt, control_tokens: Policy = "native") -> Sequence[int]:
        """The token ids of a text to be continued."""

    def generate_batch(
        self,
        prompts: Iterable[Prompt],
        *,
        each: Iterable[Settings] | None = None,
        sequences: int | None = None,
        control_tokens: Policy = "native",
        **settings: Unpack[Settings],
    ) -> list[Generation]:
        """Continue many texts or lists of token ids, `sequences` of them (default: as many as
        loaded) at a time, by steps that read the weights once for all; each gives what it gives
        alone. `each` has settings of single prompts, which come before `settings`. The results are
        in the order of the prompts. Raises the first error, which ends the others too, and before
        any work ArgumentError with the index of what is no prompt or no setting."""
        self.engine.check_graph(PREFILL)
        check_iterable("prompts", prompts, "a list of prompts; generate takes a single one")
        check_choice("control_tokens", control_tokens, POLICIES)
        given = list(prompts)
        options = options_of_each(each, len(given), settings)
        requests = [
            Request(self._numbered(i, prompt, control_tokens), own)
            for i, (prompt, own) in enumerate(zip(given, options, strict=True))
        ]
        return all_results(self.run_batch(requests, sequences=sequences))

    def _numbered(self, index: int, prompt: Prompt, control_tokens: Policy) -> Sequence[int]:
        """The token ids of prompt number `index`."""
        if isinstance(prompt, str):
            return self.encode_text(prompt, control_tokens)
        return token_ids(f"prompts[{index}]", prompt, "a text or a list of token ids")

    def run_batch(
        self, requests: Iterable[Wanted], *, sequences: int | None = None
    ) -> Iterator[BatchEvent]:
        """Events of requests that are run together, `sequences` at a time (default: as many as
        loaded). A request is asked for only when it can begin; its error ends no other one."""
        self.engine.check_graph(PREFILL)

        def stream() -> StreamDecoder:
            return StreamDecoder(self.tokenizer)

        batch = Batch(self._sessions, self.engine, stream, self.end_tokens, sequences)
        return batch.run(requests)


def options_of_each(
    each: Iterable[Settings] | None, count: int, settings: Settings
) -> list[GenerationOptions]:
    """The options of `count` prompts, of which `each` has those of single ones. Raises
    ArgumentError, with the index of the one that is wrong."""
    shared = options_of(settings)
    if each is None:
        return [shared] * count
    check_iterable("each", each, "a list of settings, one for each prompt")
    own = list(islice(each, count + 1))
    if len(own) != count:
        found = len(own) if len(own) < count else f"more than {count}"
        raise ArgumentError(f"each: expected settings for each of {count} prompts, found {found}")
    return [own_options(f"each[{i}]", one, settings) for i, one in enumerate(own)]


def own_options(name: str, own: Settings, settings: Settings) -> GenerationOptions:
    """The options of one prompt. Raises ArgumentError that begins with `name`."""
    if not isinstance(own, Mapping):
        refuse(name, own, "an object of settings, such as {'max_tokens': 8}")
    try:
        return options_of({**settings, **own})
    except ArgumentError as error:
        raise ArgumentError(f"{name}: {error}") from None
