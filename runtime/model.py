"""The model as users see it: load a bundle, generate, chat, look at logits."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

from ggufc.runtime.arguments import (
    check_choice,
    check_flag,
    check_instance,
    path_of,
    token_ids,
)
from ggufc.runtime.batch import BatchMethods, Prompt
from ggufc.runtime.bundle import PREFILL, Bundle, Manifest
from ggufc.runtime.embedding import EmbeddingMethods
from ggufc.runtime.engine import Engine, EngineOptions, Floats
from ggufc.runtime.errors import ArgumentError
from ggufc.runtime.generate import (
    Event,
    Generation,
    GenerationOptions,
    Generator,
    check_prompt,
    last_result,
)
from ggufc.runtime.session import Session, stepwise
from ggufc.runtime.session_pool import SessionPool
from ggufc.runtime.settings import Settings, options_of
from ggufc.tokenizer.base import Tokenizer
from ggufc.tokenizer.factory import load_tokenizer
from ggufc.tokenizer.provenance import POLICIES, Policy
from ggufc.tokenizer.streaming import StreamDecoder

if TYPE_CHECKING:
    from ggufc.runtime.prompt import ChatTemplate, Conversation, EncodedPrompt

Messages = Sequence[Mapping[str, Any]]


class Model(EmbeddingMethods, BatchMethods):
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
        path: str | os.PathLike[str],
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
        options = EngineOptions(threads, context, sequences, isa, mapped)
        bundle = Bundle.open(path_of("path", path))
        engine = Engine(bundle, options)
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
        prompt: Prompt,
        *,
        stream: Literal[False] = False,
        control_tokens: Policy = "native",
        session: Session | None = None,
        **settings: Unpack[Settings],
    ) -> Generation: ...

    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        stream: Literal[True],
        control_tokens: Policy = "native",
        session: Session | None = None,
        **settings: Unpack[Settings],
    ) -> Iterator[Event]: ...

    def generate(
        self,
        prompt: Prompt,
        *,
        stream: bool = False,
        control_tokens: Policy = "native",
        session: Session | None = None,
        **settings: Unpack[Settings],
    ) -> Generation | Iterator[Event]:
        """Continue a text or token ids. With `stream` returns an iterator of events, whose last
        one carries the result. `control_tokens` says whether control tokens spelled in a text
        count; a begin token that the text begins with is not added again. `session` is one to go
        on from and to extend. Raises ArgumentError, TokenizerError, and ContextError, before any
        work, for a prompt that does not fit."""
        check_flag("stream", stream)
        ids = self.encode_text(prompt, control_tokens)
        events = self._events(ids, options_of(settings), session)
        return events if stream else last_result(events)

    @overload
    def chat(
        self,
        messages: "Messages | Conversation",
        *,
        stream: Literal[False] = False,
        template: str | None = None,
        control_tokens: Policy = "literal",
        session: Session | None = None,
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
        session: Session | None = None,
        **settings: Unpack[Settings],
    ) -> Iterator[Event]: ...

    def chat(
        self,
        messages: "Messages | Conversation",
        *,
        stream: bool = False,
        template: str | None = None,
        control_tokens: Policy = "literal",
        session: Session | None = None,
        **settings: Unpack[Settings],
    ) -> Generation | Iterator[Event]:
        """Answer a conversation: messages, or a `Conversation` with tools, documents or template
        variables. Tokens that an earlier call left in the KV cache are not computed again.
        `template` names one of the model's templates; `control_tokens` says what control tokens
        in content become; `session` is one to go on from and to extend. Raises PromptError,
        ContextError, ArgumentError."""
        self.engine.check_graph(PREFILL)
        check_flag("stream", stream)
        prompt = self.encode_chat(messages, template, control_tokens)
        events = self._events(prompt, options_of(settings), session)
        return events if stream else last_result(events)

    def encode_text(self, text: Prompt, control_tokens: Policy = "native") -> Sequence[int]:
        """The token ids of a text to be continued, with the tokens that a prompt begins with;
        token ids as they are. Raises TokenizerError, ArgumentError."""
        from ggufc.runtime.prompt.prompting import text_prompt

        check_choice("control_tokens", control_tokens, POLICIES)
        if not isinstance(text, str):
            return token_ids("prompt", text, "a text or a list of token ids")
        return text_prompt(text, self.tokenizer, control_tokens).ids

    def encode_chat(
        self,
        messages: "Messages | Conversation",
        template: str | None = None,
        control_tokens: Policy = "literal",
    ) -> list[int]:
        """The token ids of a conversation, with the assistant's turn opened; content as a text or
        as parts, whichever the template was found to take."""
        return self.chat_prompt(messages, template, control_tokens).ids

    def chat_prompt(self, messages: "Messages | Conversation", *how: Any) -> "EncodedPrompt":
        """As `encode_chat`, with what content spelled and the bytes that were dropped."""
        from ggufc.runtime.prompt.prompting import chat_prompt

        return chat_prompt(messages, self.template, self.tokenizer, self.manifest.prompt, *how)

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
        check_flag("all", all)
        check_flag("step", step)
        with self.session() as session:
            if step:
                return stepwise(session, ids, all)
            if all:
                return session.prefill_all(ids, chunk=chunk)
            return session.prefill(ids, chunk=chunk).copy()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """An empty sequence of the KV cache, for those who feed tokens themselves. Raises
        PurposeError for an encoder, which has none."""
        self.engine.check_graph(PREFILL)
        with self._sessions.borrow(()) as session:
            session.clear()
            yield session

    @contextmanager
    def restore(self, path: str | os.PathLike[str]) -> Iterator[Session]:
        """The session that `Session.save` wrote to a file. Later prompts that begin as it does
        reuse it, too. Raises SessionFileError, OSError."""
        with self.session() as session:
            session.restore(path)
            yield session

    def _events(
        self, prompt: Sequence[int], options: GenerationOptions, session: Session | None
    ) -> Iterator[Event]:
        self.engine.check_graph(PREFILL)
        check_prompt(len(prompt), self.engine)
        if session is not None:
            check_instance("session", session, Session)
            if session.engine is not self.engine:
                raise ArgumentError("session: it belongs to another model")
        return self._run(prompt, options, session)

    def _run(
        self, prompt: Sequence[int], options: GenerationOptions, session: Session | None
    ) -> Iterator[Event]:
        given = self._sessions.borrow(prompt) if session is None else nullcontext(session)
        with given as used:
            stream = StreamDecoder(self.tokenizer)
            yield from Generator(used, prompt, stream, self.end_tokens, options).events()

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
