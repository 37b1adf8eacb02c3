"""The token loop: prefill, sample, decode, until something says stop; text is streamed as
events."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ggufc.runtime.arguments import check_flag, check_instance, check_integer, check_iterable
from ggufc.runtime.engine import Engine, Floats
from ggufc.runtime.errors import ArgumentError, ContextError
from ggufc.runtime.sampling import Sampler, SamplingOptions
from ggufc.runtime.session import Session
from ggufc.runtime.stops import StopScanner

DEFAULT_MAX_TOKENS = 512
UNLIMITED = -1

FinishReason = Literal["stop", "length", "stop_string", "context"]


class TextStream(Protocol):
    """Token ids in, complete UTF-8 text out."""

    def add(self, token: int) -> str:
        """The text that `token` completes, which may be empty."""

    def finalize(self) -> str:
        """The text that is left; an unfinished character becomes U+FFFD."""


@dataclass(frozen=True)
class GenerationOptions:
    """How long to generate and how. `max_tokens` -1 is up to the context; `ignore_eos` goes on
    after the model's own end tokens. Raises ArgumentError."""

    max_tokens: int = DEFAULT_MAX_TOKENS
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    sampling: SamplingOptions = field(default_factory=SamplingOptions)

    def __post_init__(self) -> None:
        check_integer("max_tokens", self.max_tokens, UNLIMITED, 2**31 - 1)
        check_iterable("stop", self.stop, "a list of texts")
        StopScanner(self.stop)
        check_flag("ignore_eos", self.ignore_eos)
        check_instance("sampling", self.sampling, SamplingOptions)


@dataclass(frozen=True)
class Usage:
    """Tokens of the prompt, tokens produced (the end token included), and prompt tokens found in
    the cache."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


@dataclass(frozen=True)
class Timings:
    """Seconds spent in the prompt, and from the first token to the last."""

    prefill_s: float
    decode_s: float
    prefill_tok_s: float
    decode_tok_s: float


@dataclass(frozen=True)
class Generation:
    """What one generation gave. `ids` are all tokens produced; `stop` is the stop string or the
    end token's id as text that ended it, if one did."""

    text: str
    ids: list[int]
    prompt_ids: list[int]
    finish_reason: FinishReason
    stop: str | None
    usage: Usage
    timings: Timings


@dataclass(frozen=True)
class Event:
    """One step: text that may be shown now (often empty), and with the last event the whole
    generation."""

    text: str
    result: Generation | None = None


class Generator:
    """One generation over a session: `begin`, then `take` the logits after each `pending` token
    until there is none, then `finish`; `events` does all of it."""

    def __init__(
        self,
        session: Session,
        prompt: Sequence[int],
        stream: TextStream,
        end_tokens: Mapping[int, str],
        options: GenerationOptions,
    ) -> None:
        """`end_tokens` are the ids that end the generation, with their text; the prompt fits (see
        `check_prompt`)."""
        self.session = session
        self._prompt = list(prompt)
        self._stream = stream
        self._end_tokens = {} if options.ignore_eos else end_tokens
        self._options = options
        self._scanner = StopScanner(options.stop)
        self._sampler = Sampler(options.sampling)
        self._ids: list[int] = []
        self._texts: list[str] = []
        self._finish: tuple[FinishReason, str | None] | None = None
        self._cached = 0
        self._prefill_s = self._first = 0.0

    def events(self) -> Iterator[Event]:
        """Text as it becomes complete, then one event with the result."""
        yield from self.begin()
        while (token := self.pending) is not None:
            yield from self.take(self.session.decode(token))
        yield from self.finish()

    def begin(self, *, prefilled_only: bool = False) -> Iterator[Event]:
        """Run what the session does not hold of the prompt, and draw the first token;
        `prefilled_only` as in `Session.reuse`."""
        started = time.perf_counter()
        self._cached = self.session.reuse(self._prompt, prefilled_only=prefilled_only)
        logits = self.session.prefill(self._prompt[self._cached :])
        self.session.checkpoint()
        self._first = time.perf_counter()
        self._prefill_s = self._first - started
        if not self._at_limit():
            yield from self.take(logits)

    @property
    def pending(self) -> int | None:
        """The token to run next; None at the end of the generation."""
        return self._ids[-1] if self._ids and not self._at_limit() else None

    def take(self, logits: Floats) -> Iterator[Event]:
        """Draw a token from the logits [vocab] after the last one."""
        token = self._sampler.sample(logits)
        self._first = self._first if self._ids else time.perf_counter()
        yield from self._accept(token)

    def finish(self) -> Iterator[Event]:
        """The text that was held back, then the result."""
        done = time.perf_counter()
        yield from self._shown(self._remaining_text())
        yield Event("", self._result(done - self._first))

    def _at_limit(self) -> bool:
        """Whether generation is over; says why, when it is because there may be no more tokens."""
        count = len(self._ids)
        if self._finish is None and count == self._options.max_tokens:
            self._finish = ("length", None)
        # The last token's keys need no place in the cache: context + 1 tokens in all.
        if self._finish is None and len(self._prompt) + count > self.session.engine.context:
            self._finish = ("context", None)
        return self._finish is not None

    def _accept(self, token: int) -> Iterator[Event]:
        """Take in one token: the text that it lets through, and whether it ends the generation."""
        self._ids.append(token)
        if token in self._end_tokens:
            self._finish = ("stop", self._end_tokens[token])
            return
        scanned = self._scanner.add(self._stream.add(token))
        if scanned.stop is not None:
            self._finish = ("stop_string", scanned.stop)
        yield from self._shown(scanned.text)

    def _remaining_text(self) -> str:
        """What was held back, once no stop string can come of it."""
        if self._finish is not None and self._finish[0] == "stop_string":
            return ""
        scanned = self._scanner.add(self._stream.finalize())
        if scanned.stop is not None:
            self._finish = ("stop_string", scanned.stop)
            return scanned.text
        return scanned.text + self._scanner.finish()

    def _shown(self, text: str) -> Iterator[Event]:
        if text:
            self._texts.append(text)
            yield Event(text)

    def _result(self, decode_s: float) -> Generation:
        assert self._finish is not None
        reason, stop = self._finish
        return Generation(
            text="".join(self._texts),
            ids=self._ids,
            prompt_ids=self._prompt,
            finish_reason=reason,
            stop=stop,
            usage=Usage(len(self._prompt), len(self._ids), self._cached),
            timings=Timings(
                self._prefill_s,
                decode_s,
                rate(len(self._prompt) - self._cached, self._prefill_s),
                rate(len(self._ids) - 1, decode_s),
            ),
        )


def check_prompt(count: int, engine: Engine) -> None:
    """Raise ContextError when a prompt of `count` tokens does not fit, ArgumentError for none."""
    if count == 0:
        raise ArgumentError("the prompt has no tokens: there is nothing to continue")
    context, compiled = engine.context, engine.manifest.limits.context
    if count > context:
        raise ContextError(
            f"the prompt has {count} tokens, the context holds {context} (compiled for {compiled})"
        )


def rate(count: int, seconds: float) -> float:
    """Tokens per second; 0 where nothing was done."""
    return count / seconds if count > 0 and seconds > 0 else 0.0


def last_result(events: Iterator[Event]) -> Generation:
    """The result that the last event carries."""
    *_, last = events
    assert last.result is not None
    return last.result
