"""What is in a GGUF file, and what of it is supported, without compiling anything."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import isfinite, prod
from pathlib import Path
from typing import Any

from ggufc.backends.llvm.layouts import RAW, layout_for, layout_reason
from ggufc.backends.llvm.type_table import product_of
from ggufc.compiler.errors import CompileError, quoted
from ggufc.compiler.gguf import GGUFArray, GGUFFile, Metadata, TensorInfo
from ggufc.compiler.gguf.vocabulary import TOKENS, check_vocabulary
from ggufc.compiler.hparams import read_hparams
from ggufc.compiler.models import GraphOptions, architecture_of, build
from ggufc.compiler.prompt_import import own_templates, prompt_report
from ggufc.compiler.tensor_uses import COMPUTED, TensorUse, tensor_uses
from ggufc.compiler.tokenizer_import import KINDS, MODEL, PRE, import_tokenizer
from ggufc.ir import IRError
from ggufc.runtime.prompt import ChatTemplate, special_tokens
from ggufc.tokenizer import create_tokenizer
from ggufc.tokenizer.errors import TokenizerError
from ggufc.tokenizer.pretokenizers import pretokenizer

SHOWN_ITEMS = 8
SHOWN_TEXT = 1000
TEMPLATE = "tokenizer.chat_template"


@dataclass(frozen=True)
class TypeUse:
    """An element type of a file: how many tensors and bytes, the layout that matrices of it are
    packed in, what they are multiplied as, and why (all None: not supported)."""

    type: str
    tensors: int
    bytes: int
    layout: str | None
    product: str | None
    reason: str | None


@dataclass(frozen=True)
class Inspection:
    """A GGUF file as `ggufc inspect` shows it. The problems say why something is not supported,
    None that it is; `hparams` is None where they cannot be read, `prompt` (what the chat templates
    can do, as in a manifest) where the vocabulary cannot be used."""

    paths: list[str]
    bytes: int
    version: int
    alignment: int
    parameters: int
    architecture: str | None
    model_problem: str | None
    hparams: dict[str, Any] | None
    tokenizer: dict[str, Any] | None
    tokenizer_problem: str | None
    prompt: dict[str, Any] | None
    types: list[TypeUse]
    metadata: dict[str, dict[str, Any]]
    tensors: list[dict[str, Any]]


def inspect_gguf(path: Path) -> Inspection:
    """Look into the file at `path`. Raises GGUFError where it cannot be read."""
    with GGUFFile.open(path) as gguf:
        metadata = gguf.metadata
        uses: dict[str, TensorUse] = {}
        return Inspection(
            paths=[str(part) for part in gguf.paths],
            bytes=gguf.size,
            version=gguf.version,
            alignment=gguf.alignment,
            parameters=sum(prod(info.shape) for info in gguf.tensors.values()),
            architecture=text_of(metadata, "general.architecture"),
            model_problem=problem_of(gguf, lambda g: uses.update(check_model(g))),
            hparams=hparams_of(metadata),
            tokenizer=tokenizer_of(metadata),
            tokenizer_problem=problem_of(gguf, check_tokenizer),
            prompt=prompt_of(gguf),
            types=type_uses(list(gguf.tensors.values())),
            metadata={key: shown_value(metadata, key) for key in metadata},
            tensors=[tensor_of(info, uses) for info in gguf.tensors.values()],
        )


def text_of(metadata: Metadata, key: str) -> str | None:
    """The value of `key` if it is a string."""
    value = metadata.get(key)
    return value if isinstance(value, str) else None


def problem_of(gguf: GGUFFile, check: Callable[[GGUFFile], None]) -> str | None:
    """The message of the error that `check` raises, without the file's name; None if it raises
    none."""
    try:
        check(gguf)
    except (CompileError, IRError, TokenizerError) as error:
        return str(error).removeprefix(f"{gguf.label}: ")
    return None


def check_model(gguf: GGUFFile) -> dict[str, TensorUse]:
    """What the model's graph does with its tensors. Raises an error unless there is a graph, or
    one of its architecture where the file holds only a vocabulary."""
    architecture_of(gguf.metadata)
    return tensor_uses(build(gguf, GraphOptions())) if gguf.tensors else {}


def check_tokenizer(gguf: GGUFFile) -> None:
    """Raise an error unless the vocabulary fits together and its kind and splitting rule are
    known."""
    metadata = gguf.metadata
    model = metadata.get_str(MODEL)
    if model not in KINDS:
        raise CompileError(f"{MODEL} is {quoted(model)}, supported are {', '.join(KINDS)}")
    check_vocabulary(metadata)
    if KINDS[model] == "bpe":
        pretokenizer(metadata.get_str(PRE, None))


def prompt_of(gguf: GGUFFile) -> dict[str, Any] | None:
    """What the manifest of a compiled bundle would say of the prompt."""
    found: dict[str, Any] = {}
    problem_of(gguf, lambda g: found.update(report_of(g.metadata)))
    hparams = hparams_of(gguf.metadata)
    if found and hparams is not None and not hparams["is_causal"]:
        found["templates"] = {}
    return found or None


def report_of(metadata: Metadata) -> dict[str, Any]:
    """The report on the tokenizer and the chat templates. Raises TokenizerError, CompileError."""
    tokenizer = create_tokenizer(import_tokenizer(metadata))
    return prompt_report(
        ChatTemplate(own_templates(metadata), special_tokens(tokenizer)), tokenizer
    )


def hparams_of(metadata: Metadata) -> dict[str, Any] | None:
    """The hyperparameters, where they can be read."""
    try:
        return read_hparams(metadata).to_dict()
    except CompileError:
        return None


def tokenizer_of(metadata: Metadata) -> dict[str, Any] | None:
    """The kind and size of the vocabulary, and the names of the chat templates."""
    model = text_of(metadata, MODEL)
    if model is None:
        return None
    tokens = metadata.get(TOKENS)
    return {
        "model": model,
        "pre": text_of(metadata, PRE),
        "tokens": len(tokens) if isinstance(tokens, GGUFArray) else 0,
        "templates": [key for key in metadata if key.startswith(TEMPLATE)],
    }


def storage_of(type_name: str) -> dict[str, str | None]:
    """The packed layout of matrices of a type, what they are multiplied as and why; None where
    there is none."""
    try:
        layout = layout_for(type_name)
    except IRError:
        return {"layout": None, "product": None, "reason": None}
    reason = layout_reason(type_name)
    return {"layout": layout.name, "product": product_of(layout), "reason": reason}


def type_uses(infos: list[TensorInfo]) -> list[TypeUse]:
    """The element types, the one with the most bytes first."""
    uses = []
    for name in {info.type_name: None for info in infos}:
        same = [info.nbytes for info in infos if info.type_name == name]
        uses.append(TypeUse(name, len(same), sum(same), **storage_of(name)))
    return sorted(uses, key=lambda use: -use.bytes)


def tensor_of(info: TensorInfo, uses: Mapping[str, TensorUse]) -> dict[str, Any]:
    """A tensor as plain data. Where there is no graph that says more, the type does."""
    found = {
        "name": info.name,
        "type": info.type_name,
        "shape": list(info.shape),
        "bytes": info.nbytes,
    }
    if uses:
        unread = TensorUse(RAW.name, "none", "none", COMPUTED)
        return found | asdict(uses.get(info.name, unread))
    return found | {"kernel": None} | storage_of(info.type_name)


def shown_value(metadata: Metadata, key: str) -> dict[str, Any]:
    """A value as plain data: its kind, and of long arrays the length and the first items."""
    value = metadata.as_written(key)
    kind = metadata.kind_of(key)
    if isinstance(value, GGUFArray):
        items = [plain(item) for item in value.head(SHOWN_ITEMS)]
        return {"type": kind, "length": len(value), "first": items}
    return {"type": kind, "value": plain(value)}


def plain(value: Any) -> Any:
    """A value that JSON can hold: long text is cut, numbers that are not finite become text."""
    if isinstance(value, GGUFArray):
        return [plain(item) for item in value.head(SHOWN_ITEMS)]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, str) and len(value) > SHOWN_TEXT:
        return value[:SHOWN_TEXT] + "..."
    return value
