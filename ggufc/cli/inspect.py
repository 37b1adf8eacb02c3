"""`ggufc inspect`: what is in a GGUF file or a bundle, and what of it is supported."""

import argparse
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ggufc.compiler.inspection import Inspection
    from ggufc.runtime.bundle import Manifest, State

# What stands before the name of a layer's state.
LAYER = re.compile(r"^blk\.\d+\.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("file", type=Path, metavar="MODEL.gguf|BUNDLE")
    add("--json", action="store_true", help="print one JSON object")
    add("--tensors", action="store_true", help="list every tensor, not only the types")


def main(arguments: argparse.Namespace) -> int:
    """Look and print."""
    if arguments.file.is_dir():
        from ggufc.runtime.bundle import Bundle

        manifest = Bundle.open(arguments.file).manifest
        print(as_json(manifest) if arguments.json else bundle_text(manifest, arguments.tensors))
        return 0
    from ggufc.compiler.inspection import inspect_gguf

    inspection = inspect_gguf(arguments.file)
    print(as_json(inspection) if arguments.json else gguf_text(inspection, arguments.tensors))
    return 0


def as_json(found: "Inspection | Manifest") -> str:
    """One JSON object; bytes that are not UTF-8 come out as escaped lone surrogates."""
    return json.dumps(dataclasses.asdict(found))


def gguf_text(found: "Inspection", tensors: bool) -> str:
    """A GGUF file, for people."""
    lines = [
        *map(shown, found.paths),
        f"  GGUF version {found.version}, {found.bytes} bytes, {found.parameters} parameters in"
        f" {len(found.tensors)} tensors, alignment {found.alignment}",
        f"model      {shown(found.architecture or 'none')}: {verdict(found.model_problem)}",
    ]
    if found.hparams is not None:
        lines.append("  " + pairs(found.hparams))
    lines.append(f"tokenizer  {tokenizer_text(found)}")
    lines += prompt_lines(found.prompt or {})
    lines.append("types")
    for use in found.types:
        count = f"{use.tensors:>5} tensors {use.bytes:>12} bytes"
        lines.append(
            f"  {use.type:<8} {count}  {storage_text(use.layout, use.product, use.reason)}"
        )
    lines.append("metadata")
    lines += [f"  {shown(key)}: {value_text(value)}" for key, value in found.metadata.items()]
    if tensors:
        lines.append("tensors")
        lines += [tensor_line(tensor) for tensor in found.tensors]
    return "\n".join(lines)


def tensor_line(tensor: dict[str, Any]) -> str:
    """A tensor of a GGUF file in a line."""
    storage = storage_text(tensor["layout"], tensor["product"], tensor["reason"])
    if tensor["kernel"] is not None:
        storage = f"{tensor['kernel']:<16} {storage}"
    return tensor_text(tensor["name"], tensor["type"], tensor["shape"], tensor["bytes"], storage)


def storage_text(layout: str | None, product: str | None, reason: str | None) -> str:
    """Where matrices of a type go and how they are multiplied."""
    return "NOT SUPPORTED" if layout is None else f"{layout:<12} {product:<7}  {reason}"


def verdict(problem: str | None) -> str:
    """Whether something is supported."""
    return "supported" if problem is None else f"NOT SUPPORTED: {problem}"


def tokenizer_text(found: "Inspection") -> str:
    """The tokenizer in a line."""
    if found.tokenizer is None:
        return "none"
    kind = "/".join(shown(k) for k in (found.tokenizer["model"], found.tokenizer["pre"]) if k)
    tokens, templates = found.tokenizer["tokens"], len(found.tokenizer["templates"])
    contents = f"{kind}, {tokens} tokens, {templates} chat templates"
    return f"{contents}: {verdict(found.tokenizer_problem)}"


def prompt_lines(report: Mapping[str, Any]) -> list[str]:
    """What is known of the prompt: end tokens, bytes that cannot be encoded, and what each chat
    template can do."""
    if not report:
        return []
    ends = ", ".join(f"{shown(end['text'])} ({end['id']})" for end in report["end_tokens"])
    lines = [f"ends       {ends or 'no token ends a turn'}"]
    if report["missing_bytes"]:
        missing = " ".join(f"{value:02x}" for value in report["missing_bytes"])
        lines.append(f"bytes      no token for {len(report['missing_bytes'])}: {missing}")
    for name, capabilities in report["templates"].items():
        source = " (ChatML, since the model has none)" if report["source"] == "ChatML" else ""
        lines.append(f"template   {shown(name)}{source}")
        lines += [f"  {what:<22} {shown(text, 300)}" for what, text in capabilities.items()]
    return lines


def pairs(values: dict[str, Any]) -> str:
    """Names and values in one line; a list (one value a layer) by what is in it."""
    texts = []
    for name, value in values.items():
        is_list = isinstance(value, list)
        text = " or ".join(dict.fromkeys(map(str, value))) if is_list else str(value)
        texts.append(f"{name} {text}")
    return ", ".join(texts)


def value_text(value: dict[str, Any]) -> str:
    """A metadata value in a line."""
    if "length" not in value:
        text = value["value"]
        return shown(text) if isinstance(text, str) else str(text)
    items = ", ".join(shown(str(item), 24) for item in value["first"])
    more = ", ..." if value["length"] > len(value["first"]) else ""
    return f"{value['length']} x {value['type'].removeprefix('array of ')}: {items}{more}"


def tensor_text(name: str, kind: str, shape: list[int], nbytes: int, storage: str) -> str:
    """A tensor in a line."""
    return f"  {shown(name):<36} {kind:<8} {shape!s:<20} {nbytes:>12} bytes  {storage}"


def shown(text: str, limit: int = 100) -> str:
    """Text from a file on one line."""
    from ggufc.compiler.errors import shown as printable

    return printable(text, limit)


def states_text(states: Sequence["State"]) -> str:
    """The arrays of the cache, those of all layers as one: `30 x k bf16, 30 x v bf16`."""
    names = (f"{LAYER.sub('', state.name)} {state.dtype}" for state in states)
    counted = Counter(names)
    return ", ".join(f"{count} x {shown(name)}" for name, count in counted.items()) or "none"


def bundle_text(found: "Manifest", weights: bool) -> str:
    """A bundle, for people."""
    model, source = found.model, found.source
    position_bytes = sum(state.position_bytes for state in found.states)
    sequence_bytes = sum(state.sequence_bytes for state in found.states)
    lines = [
        f"bundle     format {found.format}, compiled by ggufc {found.ggufc}",
        f"source     {source.name}, {source.bytes} bytes, sha256 {source.sha256}",
        f"model      {model.name}, {model.architecture}, vocabulary {model.vocab_size}",
        f"  {pairs(dict(model.hparams))}",
        f"limits     {pairs(dataclasses.asdict(found.limits))}",
        f"options    {pairs(dict(found.options))}",
        f"cache      {position_bytes} bytes a position, {sequence_bytes} a sequence:"
        f" {states_text(found.states)}",
        f"graphs     {', '.join(found.graphs)}",
        f"embedding  {found.embedding.width} numbers, pooling"
        f" {found.embedding.pooling or 'not given: mean'}",
        *prompt_lines(found.prompt),
        "code",
    ]
    for code in found.objects:
        needs = ", ".join(code.needs) or "nothing"
        lines.append(f"  {code.isa:<16} arena {code.arena_bytes} bytes, needs {needs}")
    lines.append("files")
    lines += [f"  {entry.bytes:>12} bytes  {entry.path}" for entry in found.files]
    if weights:
        lines.append("weights")
        for weight in found.weights:
            shape = list(weight.shape)
            lines.append(tensor_text(weight.name, weight.type, shape, weight.bytes, weight.layout))
    return "\n".join(lines)
