"""Arguments of other types than the Python interface states: each is refused by its name, with the
value found and the values allowed, and none is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ggufc
from ggufc.compiler.errors import OptionError
from ggufc.runtime.arguments import shown
from ggufc.runtime.batch import Request
from ggufc.runtime.errors import ArgumentError
from ggufc.runtime.generate import GenerationOptions
from ggufc.runtime.model import Model
from ggufc.runtime.prompt import Conversation, PromptError
from ggufc.tokenizer.errors import TokenizerError
from tests.support.bundles import letters

# What is called here is called with types that a checker would refuse.
Use = Callable[[Any], object]
TURN: Any = [{"role": "user", "content": "a"}]
HUGE = 10**5000


@pytest.fixture(scope="module")
def model(alphabet: Path) -> Iterator[Model]:
    with Model.load(alphabet, threads=1) as loaded:
        yield loaded


def new(kind: Any, *arguments: Any, **named: Any) -> object:
    """An instance of a class."""
    return kind(*arguments, **named)


def chat(**fields: Any) -> Use:
    """A chat with a conversation that has these fields."""
    return lambda m: m.chat(Conversation(TURN, **fields))


LOADING: list[tuple[dict[str, Any], str]] = [
    ({"sequences": "x"}, "sequences 'x': expected an integer from 1 to 8"),
    ({"sequences": True}, "sequences True: expected an integer from 1 to 8"),
    ({"threads": "x"}, "threads 'x': expected an integer from 1 to 1024"),
    ({"threads": 1.5}, "threads 1.5: expected an integer from 1 to 1024"),
    ({"context": "x"}, "context 'x': expected an integer from 1 to 64"),
    ({"context": 64.0}, "context 64.0: expected an integer from 1 to 64"),
    ({"isa": 5}, "isa 5: expected the name of an instruction set"),
    ({"mapped": "x"}, "mapped 'x': expected True or False"),
]
BATCHES: list[tuple[Use, str]] = [
    (lambda m: m.run_batch(5), "requests 5: expected a list of requests"),
    (lambda m: m.run_batch("text"), "requests 'text': expected a list of requests"),
    (lambda m: m.run_batch([], sequences="x"), "sequences 'x': expected an integer from 1 to 8"),
    (
        lambda _: new(Request, "ab", GenerationOptions()),
        "prompt 'ab': expected a list of token ids",
    ),
    (lambda _: new(Request, [1, 2.5], GenerationOptions()), "prompt[1] 2.5: expected a token id"),
    (lambda _: new(Request, [1], {}), "options {}: expected an instance of GenerationOptions"),
    (lambda m: m.generate_batch(5), "prompts 5: expected a list of prompts"),
    (lambda m: m.generate_batch("abc"), "prompts 'abc': expected a list of prompts"),
    (lambda m: m.generate_batch(["a", 5]), "prompts[1] 5: expected a text or a list of token ids"),
    (lambda m: m.generate_batch([[5], [5, "a"]]), "prompts[1][1] 'a': expected a token id"),
    (lambda m: m.generate_batch(["a", "b"], each=[{}]), "each: expected settings for each of 2"),
    (lambda m: m.generate_batch(["a"], each=repeat({})), "each of 1 prompts, found more than 1"),
    (lambda m: m.generate_batch(["a", "b"], each=[{}, 5]), "each[1] 5: expected an object"),
    (lambda m: m.generate_batch(["a"], each=[{"x": 1}]), "each[0]: unknown setting 'x'"),
    (lambda m: m.generate_batch(["a"], each=[{"top_p": "x"}]), "each[0]: top_p 'x': expected a"),
    (lambda m: m.generate_batch(["a"], each=5), "each 5: expected a list of settings"),
    (lambda m: m.generate_batch([], bogus=1), "unknown setting 'bogus'; the settings are max_tok"),
    (lambda m: m.generate_batch([], control_tokens="x"), "control_tokens 'x': allowed are literal"),
]
EMBEDDINGS: list[tuple[Use, str]] = [
    (lambda m: m.embed(5), "texts 5: expected a list of texts"),
    (lambda m: m.embed(b"abc"), "texts b'abc': expected a list of texts"),
    (lambda m: m.embed(["a", 5]), "texts[1] 5: expected a text"),
    (lambda m: m.embed_tokens("abc"), "texts 'abc': expected a list of texts"),
    (lambda m: m.embed_tokens(["a"], pooling="mean"), "pooling 'mean': expected none"),
    (lambda m: m.embed("a", normalize="x"), "normalize 'x': expected True or False"),
    (lambda m: m.embed("a", truncate=1), "truncate 1: expected True or False"),
    (lambda m: m.embed("a", dimensions=True), "dimensions True: expected an integer from 1 to 64"),
    (lambda m: m.embed("a", dimensions=2.0), "dimensions 2.0: expected an integer from 1 to 64"),
    (lambda m: m.embed("a", size=1), "unknown setting 'size'; the settings are pooling, normalize"),
    (lambda m: m.embed("a", pooling=np.arange(2)), "pooling array([0, 1]): allowed are none, mean"),
    (lambda m: m.embed([], control_tokens="x"), "control_tokens 'x': allowed are literal"),
    (lambda m: m.embedder().embed(5), "tokens 5: expected a list of token ids for each text"),
    (
        lambda m: list(m.embedder().embed([[64]])),
        "token id 64 at index 0: the voc",
    ),
]
GENERATION: list[tuple[Use, str]] = [
    (lambda m: m.generate("a", session="x"), "session 'x': expected an instance of Session"),
    (lambda m: m.chat(TURN, session=5), "session 5: expected an instance of Session"),
    (lambda m: m.generate("a", stream="x"), "stream 'x': expected True or False"),
    (lambda m: m.chat(TURN, stream=1), "stream 1: expected True or False"),
    (lambda m: m.generate([5], control_tokens="x"), "control_tokens 'x': allowed are literal"),
    (lambda m: m.generate("a", ignore_eos="x"), "ignore_eos 'x': expected True or False"),
    (lambda m: m.generate("a", max_tokens=HUGE), "max_tokens a value of type int: expected an"),
    (lambda m: m.generate("a", temperature=10**400), "temperature 1000000"),
    (lambda m: m.generate("a", stop={"b": 1}), "stop {'b': 1}: expected a text or a list of texts"),
    (lambda m: m.generate("a", stop=b"b"), "stop b'b': expected a text or a list of texts"),
    (lambda _: new(GenerationOptions, stop="ab"), "stop 'ab': expected a list of texts"),
    (
        lambda _: new(GenerationOptions, sampling={}),
        "sampling {}: expected an instance of SamplingOpt",
    ),
    (lambda m: m.logits([[1], [1, 2]]), "token ids [[1], [1, 2]]: expected a flat list of"),
    (lambda m: m.logits([1], chunk="x"), "chunk 'x': expected an integer from 1 to"),
    (lambda m: m.logits([1], all="x"), "all 'x': expected True or False"),
    (lambda m: m.logits([1], step=2), "step 2: expected True or False"),
]
CHATS: list[tuple[Use, str]] = [
    (lambda m: m.chat(TURN, template=["x"]), "no chat template ['x']; the model has chat_template"),
    (lambda m: m.chat(TURN, control_tokens=["x"]), "control_tokens is ['x'], allowed are literal"),
    (chat(variables=5), "kwargs: expected an object, found a number"),
    (chat(variables={5: 1}), "kwargs: expected names of variables, found 5"),
    (chat(now="x"), "now: expected datetime or None, found 'x'"),
    (chat(add_generation_prompt="x"), "add_generation_prompt: expected bool or None, found 'x'"),
    (chat(continue_final_message=5), "continue_final_message: expected bool or str, found 5"),
]
TOKENIZING: list[tuple[Use, str]] = [
    (lambda m: m.tokenizer.decode_text(5, skip_control=True), "ids are 5; allowed: a list of"),
    (lambda m: m.tokenizer.decode(["a"]), "ids are ['a']; allowed: a list of integers"),
    (lambda m: m.tokenizer.token_bytes("a"), "token is 'a'; allowed: an integer"),
    (lambda m: m.tokenizer.encode_marked("a", 5), "authored_by_template is 5; allowed: a list of"),
]
PATHS = [5, None, b"x", "", "a\0b"]


def refused(error: type[Exception], message: str, use: Callable[[], object]) -> None:
    """The use raises the error, on one line that begins with the message."""
    with pytest.raises(error) as caught:
        use()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("settings", "message"), LOADING)
def test_loading(alphabet: Path, settings: dict[str, Any], message: str) -> None:
    refused(ArgumentError, message, lambda: ggufc.load(alphabet, **settings))


@pytest.mark.parametrize(("use", "message"), [*BATCHES, *EMBEDDINGS, *GENERATION])
def test_the_methods_of_a_model(model: Model, use: Use, message: str) -> None:
    refused(ArgumentError, message, lambda: use(model))


@pytest.mark.parametrize(("use", "message"), CHATS)
def test_conversations(model: Model, use: Use, message: str) -> None:
    refused(PromptError, message, lambda: use(model))


@pytest.mark.parametrize(("use", "message"), TOKENIZING)
def test_the_tokenizer(model: Model, use: Use, message: str) -> None:
    refused(TokenizerError, message, lambda: use(model))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"bogus": 1}, ArgumentError, "unknown option 'bogus'; the options are target, context"),
        ({"force": "x"}, ArgumentError, "force 'x': expected True or False"),
        ({"target": 5}, OptionError, "target 5: expected native, portable, or names of"),
        ({"kv_type": ["f16"]}, OptionError, "kv type '['f16']' is not supported"),
        ({"keep_ir": "x"}, OptionError, "keep_ir 'x': expected True or False"),
        ({"chat_template": "x"}, OptionError, "chat_template 'x': expected a pathlib.Path"),
    ],
)
def test_compiling(options: dict[str, Any], error: type[Exception], message: str) -> None:
    refused(error, message, lambda: ggufc.compile("x.gguf", "y", **options))


@pytest.mark.parametrize("path", PATHS)
def test_paths(model: Model, path: Any) -> None:
    expected = f"{shown(path)}: expected a path"
    refused(ArgumentError, expected, lambda: ggufc.load(path))
    refused(ArgumentError, expected, lambda: ggufc.compile(path))
    with model.session() as session:
        refused(ArgumentError, expected, lambda: session.save(path))
        refused(ArgumentError, expected, lambda: session.restore(path))


def test_a_number_is_no_file_that_is_open(model: Model, tmp_path: Path) -> None:
    with open(tmp_path / "mine", "w") as file, model.session() as session:
        untyped: Any = session
        refused(ArgumentError, "expected a path", lambda: untyped.restore(file.fileno()))
        assert os.fstat(file.fileno()).st_size == 0


@pytest.mark.parametrize("note", [{1, 2}, float("nan"), "\ud800"])
def test_notes_that_json_has_not(model: Model, tmp_path: Path, note: Any) -> None:
    with model.session() as session:
        refused(
            ArgumentError, "expected what JSON", lambda: session.save(tmp_path / "s", note=note)
        )
    assert not list(tmp_path.iterdir())


def test_what_is_no_request_is_answered_in_its_place(model: Model) -> None:
    good = Request(letters("x"), GenerationOptions())
    items: list[Any] = ["text", good, 0, [1], good]
    events = [e for e in model.run_batch(items) if e.result is not None or e.error is not None]
    texts = {e.index: e.result.text for e in events if e.result is not None}
    errors = {e.index: str(e.error) for e in events if e.error is not None}
    assert texts == {1: "yz", 4: "yz"}
    expected = "expected a Request, an exception in its place, or None"
    assert errors == {i: f"requests[{i}] {items[i]!r}: {expected}" for i in (0, 2, 3)}


def test_numbers_of_numpy_are_numbers(model: Any) -> None:
    how = {"max_tokens": np.int64(2), "temperature": np.float32(0)}
    assert model.generate(np.array(letters("a")), **how).text == "bc"
    assert model.embed(iter(["a", "b"]), dimensions=np.int64(3)).shape == (2, 3)


def test_values_are_shown_on_one_line() -> None:
    assert shown(np.zeros((2, 2))) == "array([[0., 0.], [0., 0.]])"
    assert shown("x" * 900) == "'" + "x" * 59
    assert shown(HUGE) == "a value of type int"
