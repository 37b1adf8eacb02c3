"""The model as users see it: load a bundle, generate, chat, look at logits."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack, overload

from ggufc.runtime.bundle import Bundle, Manifest
from ggufc.runtime.engine import Engine, EngineOptions, Floats
from ggufc.runtime.generate import (
    DEFAULT_MAX_TOKENS,
    Event,
    Generation,
    GenerationOptions,
    Generator,
    check_prompt,
)
from ggufc.runtime.sampling import SamplingOptions
from ggufc.runtime.session import Session, SessionPool
from ggufc.tokenizer.base import ControlTokens, Tokenizer
from ggufc.tokenizer.factory import load_tokenizer
from ggufc.tokenizer.provenance import Policy
from ggufc.tokenizer.streaming import StreamDecoder

if TYPE_CHECKING:
    from ggufc.runtime.prompt import ChatTemplate, Conversation

Messages = Sequence[Mapping[str, Any]]


class Settings(TypedDict, total=False):
    """How to generate; see `GenerationOptions` and `SamplingOptions` for meaning and defaults."""

    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int | None
    stop: str | Iterable[str]
    ignore_eos: bool


def options_of(settings: Settings) -> GenerationOptions:
    """Checked options. Raises ArgumentError."""
    stop = settings.get("stop", ())
    return GenerationOptions(
        max_tokens=settings.get("max_tokens", DEFAULT_MAX_TOKENS),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        ignore_eos=settings.get("ignore_eos", False),
        sampling=SamplingOptions(
            temperature=settings.get("temperature", 0.0),
            top_k=settings.get("top_k", 0),
            top_p=settings.get("top_p", 1.0),
            min_p=settings.get("min_p", 0.0),
            seed=settings.get("seed"),
        ),
    )


class Model:
    """A loaded bundle. Its methods may be called from several threads: each call takes one of the
    sequences of the KV cache, waiting while all are taken. Use `with`, or call `close`."""

    def __init__(self, bundle: Bundle, engine: Engine) -> None:
        self.bundle = bundle
        self.engine = engine
        self.load_seconds = 0.0
        self._sessions = SessionPool(engine)

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        threads: int | None = None,
        context: int | None = None,
        sequences: int | None = None,
        isa: str | None = None,
        mapped: bool = False,
    ) -> Self:
        """Open the bundle at `path`. None takes the default: threads as many as this machine
        offers, context and sequences as compiled, the best instruction set. `mapped` shares the
        weights between processes. Raises BundleError, MachineError, ContextError,
        ArgumentError."""
        started = time.perf_counter()
        bundle = Bundle.open(path)
        engine = Engine(bundle, EngineOptions(threads, context, sequences, isa, mapped))
        model = cls(bundle, engine)
        model.load_seconds = time.perf_counter() - started
        return model

    @property
    def manifest(self) -> Manifest:
        """What the bundle says of itself."""
        return self.bundle.manifest

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Text to ids and back."""
        return load_tokenizer(self.bundle.path)

    @cached_property
    def template(self) -> "ChatTemplate":
        """Messages to text."""
        from ggufc.runtime.prompt import ChatTemplate, special_tokens

        return ChatTemplate.load(self.bundle.path, special_tokens(self.tokenizer))

    @overload
    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        stream: Literal[False] = False,
        control_tokens: ControlTokens = "native",
        **settings: Unpack[Settings],
    ) -> Generation: ...

    @overload
    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        stream: Literal[True],
        control_tokens: ControlTokens = "native",
        **settings: Unpack[Settings],
    ) -> Iterator[Event]: ...

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        stream: bool = False,
        control_tokens: ControlTokens = "native",
        **settings: Unpack[Settings],
    ) -> Generation | Iterator[Event]:
        """Continue a text or token ids. With `stream` returns an iterator of events, whose last
        one carries the result. `control_tokens` says whether control tokens spelled in a text
        count: `native` or `literal`; a begin token that the text begins with is not added again.
        Raises ContextError, before any work, for a prompt that does not fit."""
        if isinstance(prompt, str):
            from ggufc.runtime.prompt import with_begin

            typed = self.tokenizer.encode(prompt, control_tokens=control_tokens, add_special=False)
            prompt = with_begin(typed, self.tokenizer)
        events = self._events(prompt, options_of(settings))
        return events if stream else last_result(events)

    @overload
    def chat(
        self,
        messages: "Messages | Conversation",
        *,
        stream: Literal[False] = False,
        template: str | None = None,
        control_tokens: Policy = "literal",
        **settings: Unpack[Settings],
    ) -> Generation: ...

    @overload
    def chat(
        self,
        messages: "Messages | Conversation",
        *,
        stream: Literal[True],
        template: str | None = None,
        control_tokens: Policy = "literal",
        **settings: Unpack[Settings],
    ) -> Iterator[Event]: ...

    def chat(
        self,
        messages: "Messages | Conversation",
        *,
        stream: bool = False,
        template: str | None = None,
        control_tokens: Policy = "literal",
        **settings: Unpack[Settings],
    ) -> Generation | Iterator[Event]:
        """Answer a conversation: messages, or a `Conversation` with tools, documents or template
        variables. Tokens that an earlier call left in the KV cache are not computed again.
        `template` names one of the model's templates; `control_tokens` says what control tokens
        in content become. Raises PromptError, ContextError, ArgumentError."""
        prompt = self.encode_chat(messages, template, control_tokens)
        events = self._events(prompt, options_of(settings))
        return events if stream else last_result(events)

    def encode_chat(
        self,
        messages: "Messages | Conversation",
        template: str | None = None,
        control_tokens: Policy = "literal",
    ) -> list[int]:
        """The token ids of a conversation, with the assistant's turn opened; content as a text or
        as parts, whichever the template was found to take."""
        from ggufc.runtime.prompt import Conversation, encode_prompt, fitted

        whole = messages if isinstance(messages, Conversation) else Conversation(messages)
        name = self.template.name_for(template, whole.tools)
        capabilities = self.manifest.prompt.get("templates", {}).get(name, {})
        rendered = self.template.render(fitted(whole, capabilities), name, text_only=True)
        return encode_prompt(rendered, self.tokenizer, control_tokens).ids

    def logits(
        self,
        ids: Sequence[int],
        *,
        all: bool = False,
        step: bool = False,
        chunk: int | None = None,
    ) -> Floats:
        """float32 logits after the last of `ids` [vocab], or with `all` after each [len(ids),
        vocab]. `step` runs the decode graph token by token, otherwise prefill runs `chunk` tokens
        at once."""
        with self.session() as session:
            if step:
                return stepwise(session, ids, all)
            if all:
                return session.prefill_all(ids, chunk=chunk)
            return session.prefill(ids, chunk=chunk).copy()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """An empty sequence of the KV cache, for those who feed tokens themselves."""
        with self._sessions.borrow(()) as session:
            session.clear()
            yield session

    def _events(self, prompt: Sequence[int], options: GenerationOptions) -> Iterator[Event]:
        check_prompt(len(prompt), self.engine)
        return self._run(prompt, options)

    def _run(self, prompt: Sequence[int], options: GenerationOptions) -> Iterator[Event]:
        with self._sessions.borrow(prompt) as session:
            stream = StreamDecoder(self.tokenizer)
            yield from Generator(session, prompt, stream, self.end_tokens, options).events()

    @cached_property
    def end_tokens(self) -> dict[int, str]:
        """The tokens that end a generation, with their text."""
        return {token: self.tokenizer.decode_text([token]) for token in self.tokenizer.stop_ids}

    def close(self) -> None:
        """End the threads. The memory goes with the last reference to the model."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()


def last_result(events: Iterator[Event]) -> Generation:
    """The result that the last event carries."""
    *_, last = events
    assert last.result is not None
    return last.result


def stepwise(session: Session, ids: Sequence[int], all: bool) -> Floats:
    """Logits by the decode graph, one token at a time."""
    import numpy as np

    session.check_room(len(ids))
    rows = [
        session.decode(int(token)).copy() if all else session.decode(int(token)) for token in ids
    ]
    return np.stack(rows) if all else rows[-1].copy()
