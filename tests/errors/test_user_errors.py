"""Every fault a user can meet: one line, exit code 1, nothing half-written."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ggufc.runtime.bundle import MANIFEST, Bundle
from tests.support.cli import Capture, assert_one_line, run_here
from tests.support.tiny_gguf import tiny_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def compile_fails(
    capsys: Capture, source: Path, *parts: str, flags: tuple[str, ...] = (), expected: int = 1
) -> None:
    """Compiling `source` gives one line with `parts`, and no file beside it."""
    before = sorted(source.parent.iterdir())
    target = source.parent / "out.ggufc"
    code, out, err = run_here(capsys, "compile", source, "-o", target, *flags)
    assert (code, out) == (expected, "")
    assert_one_line(err, *parts)
    assert sorted(source.parent.iterdir()) == before


@pytest.mark.parametrize("where", ["last byte", "half", "header"])
def test_a_truncated_model(folder: Path, capsys: Capture, where: str) -> None:
    source = tiny_model().write(folder / "cut.gguf")
    data = source.read_bytes()
    keep = {"last byte": len(data) - 1, "half": len(data) // 2, "header": 30}[where]
    source.write_bytes(data[:keep])
    compile_fails(capsys, source, "cut.gguf")


def test_an_unknown_architecture(folder: Path, capsys: Capture) -> None:
    model = tiny_model()
    model.metadata["general.architecture"] = "nosuch"
    compile_fails(capsys, model.write(folder / "a.gguf"), "'nosuch' is not supported", "llama")


def test_an_unsupported_tensor_type(folder: Path, capsys: Capture) -> None:
    model = tiny_model(type_name="i8")
    compile_fails(capsys, model.write(folder / "a.gguf"), "weight", "'i8'", "q4_k")


def test_no_model_at_all(folder: Path, capsys: Capture) -> None:
    compile_fails(capsys, folder / "none.gguf", "none.gguf")
    (folder / "text.gguf").write_text("hello, I am no model at all")
    compile_fails(capsys, folder / "text.gguf", "text.gguf")


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--kv-type", "q8_0"), ("kv type 'q8_0'", "bf16, f16, f32")),
        (("-c", "0"), ("context size 0", "allowed are 1 to")),
        (("--max-batch", "0"), ("max batch 0", "1 to 256")),
        (("--target", "z80"), ("target 'z80' is unknown", "native, portable, x86-64-amx")),
        (("--target", ","), ("target is empty",)),
        (("--chat-template", "/nonexistent"), ("/nonexistent", "cannot read the chat template")),
    ],
)
def test_bad_options(
    folder: Path, capsys: Capture, flags: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    """Wrong usage exits with 2; a file that cannot be read is none."""
    source = tiny_model().write(folder / "a.gguf")
    compile_fails(
        capsys, source, *parts, flags=flags, expected=1 if "--chat-template" in flags else 2
    )


def run_fails(capsys: Capture, bundle: Path, *parts: str, flags: tuple[str, ...] = ()) -> None:
    """Running a bundle gives one line with `parts`."""
    code, out, err = run_here(capsys, "run", bundle, "--no-template", "-p", "a", "-n", "1", *flags)
    assert (code, out) == (1, "")
    assert_one_line(err, *parts)


@pytest.fixture
def copy(tiny: Path, folder: Path) -> Path:
    return Path(shutil.copytree(tiny, folder / "copy.ggufc"))


def test_one_flipped_byte_in_each_file(copy: Path, capsys: Capture) -> None:
    files = [path for path in copy.rglob("*") if path.is_file()]
    assert len(files) >= 6
    for path in files:
        data = path.read_bytes()
        for at in (0, len(data) // 2, len(data) - 1):
            damaged = bytearray(data)
            damaged[at] ^= 0x10
            path.write_bytes(damaged)
            run_fails(capsys, copy, str(path))
        path.write_bytes(data)
    assert run_here(capsys, "run", copy, "--no-template", "-p", "a", "-n", "1")[0] == 0


def test_verify_finds_a_flipped_byte(copy: Path, capsys: Capture) -> None:
    weights = copy / "weights.bin"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    code, _, err = run_here(capsys, "verify", copy)
    assert code == 1
    assert_one_line(err, "weights.bin", "sha256", "the manifest says")


def test_verify_finds_code_of_another_model(copy: Path, capsys: Capture, folder: Path) -> None:
    """Hashes that are right, weights of another model: only the interpreter can tell."""
    from tests.support.bundles import bundle_of

    other = bundle_of(tiny_model(seed=2), folder / "other")
    for name in ("weights.bin", MANIFEST):
        shutil.copy(other / name, copy / name)
    manifest = Bundle.open(other).manifest
    wrong = [replace(w, offset=manifest.weights[0].offset) for w in manifest.weights]
    shuffled = replace(manifest, weights=tuple(wrong))
    (copy / MANIFEST).write_bytes(shuffled.to_bytes())
    code, out, _ = run_here(capsys, "verify", copy)
    assert code == 1
    assert "FAILED" in out


def test_oversized_context(tiny: Path, capsys: Capture) -> None:
    parts = ("context 129", "1 to 128")
    run_fails(capsys, tiny, *parts, flags=("-c", "129"))


def test_oversized_prompt(tiny: Path, capsys: Capture) -> None:
    code, out, err = run_here(capsys, "run", tiny, "--no-template", "-p", "x" * 200)
    assert (code, out) == (1, "")
    assert_one_line(err, "the prompt has 200 tokens, the context holds 128")


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("-t", "0"), ("threads 0", "1 to 1024")),
        (("--temp", "-1"), ("temperature -1.0", "at least 0")),
        (("--top-p", "2"), ("top_p 2.0", "from 0 to 1")),
        (("--stop", ""), ("stop string 0 is ''",)),
        (("--isa", "z80"), ("no code for z80", "the bundle holds")),
        (("-n", "-5"), ("max_tokens -5", "from -1")),
    ],
)
def test_bad_run_options(
    tiny: Path, capsys: Capture, flags: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    run_fails(capsys, tiny, *parts, flags=flags)


def test_a_processor_that_lacks_features(copy: Path, capsys: Capture) -> None:
    manifest = Bundle.open(copy).manifest
    objects = tuple(replace(o, needs=(*o.needs, "avx4096")) for o in manifest.objects)
    (copy / MANIFEST).write_bytes(replace(manifest, objects=objects).to_bytes())
    run_fails(capsys, copy, "needs avx4096", "--target portable")


def test_an_object_that_is_none(copy: Path, capsys: Capture) -> None:
    import hashlib

    manifest = Bundle.open(copy).manifest
    path = manifest.objects[0].path
    data = b"not an object, but with the right hash"
    (copy / path).write_bytes(data)
    entry = replace(manifest.file(path), bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    files = tuple(entry if f.path == path else f for f in manifest.files)
    (copy / MANIFEST).write_bytes(replace(manifest, files=files).to_bytes())
    run_fails(capsys, copy, path, "does not load")


def test_what_is_neither_bundle_nor_model(folder: Path, capsys: Capture) -> None:
    run_fails(capsys, folder / "none", "none: no such file or folder")
    run_fails(capsys, folder, f"not a bundle: there is no {MANIFEST}")
    (folder / "x").write_bytes(b"abcdef")
    run_fails(capsys, folder / "x", "neither a bundle nor a GGUF file: it begins with b'abcd'")


@pytest.mark.parametrize(
    ("data", "offset"), [(b"A\xe2\x80", 1), (b"\xff", 0), (b"ok\xed\xa0\xbd", 2)]
)
def test_a_prompt_file_that_is_not_text(
    tiny: Path, capsys: Capture, folder: Path, data: bytes, offset: int
) -> None:
    (folder / "prompt").write_bytes(data)
    code, _, err = run_here(capsys, "run", tiny, "--no-template", "-f", folder / "prompt")
    assert code == 1
    assert_one_line(err, f"byte 0x{data[offset]:02x} at offset {offset} is not UTF-8")


def test_a_terminal_obeys_nothing_in_an_error(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "template").write_text("{{ raise_exception('a\\nb\x1b[31m\u202ec') }}")
    (tmp_path / "messages").write_text('[{"role": "user", "content": "x"}]')
    code, out, err = run_here(
        capsys, "render", "--chat-template", tmp_path / "template", tmp_path / "messages"
    )
    assert (code, out) == (1, "")
    assert err == "ggufc: a\\nb\\x1b[31m\\u202ec\n"


@pytest.mark.parametrize("command", [("compile",), ("tokenize", "a"), ("render", "-")])
def test_what_is_wrong_with_a_tokenizer_is_said_with_the_file(
    folder: Path, capsys: Capture, command: tuple[str, ...]
) -> None:
    model = tiny_model()
    model.metadata["tokenizer.ggml.pre"] = "no-such"
    source = model.write(folder / "m.gguf")
    code, out, err = run_here(capsys, command[0], source, *command[1:])
    assert (code, out) == (1, "")
    assert_one_line(err, f"{source}: tokenizer.ggml.pre is 'no-such'")


NESTED = {
    "too long": "{% if x %}" * 100_000,
    "blocks": "{% if x %}" * 6_000 + "{% endif %}" * 6_000,
    "branches": "{% if x %}" + "{% elif x %}" * 6_000 + "{% endif %}",
    "parentheses": "{{ " + "(" * 60_000 + "1" + ")" * 60_000 + " }}",
    "lists": "{{ " + "[" * 60_000 + "]" * 60_000 + " }}",
    "attributes": "{{ x" + ".a" * 60_000 + " }}",
}


@pytest.mark.parametrize("name", NESTED)
def test_templates_that_no_compiler_should_take(folder: Path, capsys: Capture, name: str) -> None:
    model = tiny_model()
    model.metadata["tokenizer.chat_template"] = NESTED[name]
    source = model.write(folder / "m.gguf")
    found = "has 1000000 characters" if name == "too long" else "is nested too deeply"
    compile_fails(capsys, source, f"{source}: the chat template", f"the template {found}")
    code, out, err = run_here(capsys, "inspect", source)
    assert (code, err) == (0, "")
    assert f"the template {found}" in out
    messages = folder / "m.json"
    messages.write_text('[{"role": "user", "content": "x"}]')
    code, out, err = run_here(capsys, "render", source, messages)
    assert (code, out) == (1, "")
    assert_one_line(err, f"the template {found}")
