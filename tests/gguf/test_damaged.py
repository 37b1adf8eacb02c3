"""Damaged and hostile files: each is refused in one line that names the thing, the value and what
is allowed."""

from __future__ import annotations

import os
from pathlib import Path
from struct import pack

import pytest

from ggufc.compiler.errors import GGUFError
from ggufc.compiler.gguf import GGUFFile
from tests.support.raw_gguf import header, key, string, tensor_entry
from tests.support.tiny_gguf import TinyModel, tiny_model


def refusal(path: Path, content: bytes | None = None) -> str:
    """The message with which a file is refused."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GGUFError) as caught:
        GGUFFile.open(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path.parent) in message
    return message.removeprefix(f"{path}: ")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


@pytest.mark.parametrize("value", [0, 24, 3, 2**32 - 1])
def test_alignment_must_be_a_power_of_two(path: Path, value: int) -> None:
    content = header(0, 1) + key("general.alignment", "u32", pack("<I", value))
    assert (
        refusal(path, content) == f"key 'general.alignment' is {value}, allowed are powers of two"
    )


def test_alignment_must_be_a_number(path: Path) -> None:
    content = header(0, 1) + key("general.alignment", "string", string("32"))
    assert refusal(path, content) == "key 'general.alignment' is of type string, wanted an integer"


def test_a_huge_alignment_does_not_wrap(path: Path) -> None:
    content = header(1, 1) + key("general.alignment", "u32", pack("<I", 1 << 31))
    message = refusal(path, content + tensor_entry("t", [8]) + bytes(64))
    assert (
        message
        == f"the file is cut short: tensor 't' needs 32 bytes at byte {1 << 31}, 0 are present"
    )


@pytest.mark.parametrize("alignment", [64, 4096])
def test_other_alignments_give_the_same_tensors(tmp_path: Path, alignment: int) -> None:
    usual = GGUFFile.open(tiny_model().write(tmp_path / "usual.gguf"))
    other = GGUFFile.open(tiny_model().write(tmp_path / "other.gguf", alignment=alignment))
    assert other.alignment == alignment
    assert all(info.offset % alignment == 0 for info in other.tensors.values())
    for name in usual.tensors:
        assert usual.tensor_bytes(name).tobytes() == other.tensor_bytes(name).tobytes()


def test_a_cut_file_names_the_tensor_and_the_bytes(path: Path) -> None:
    whole = tiny_model().write(path).read_bytes()
    info = list(GGUFFile.open(path).tensors.values())[-1]
    message = refusal(path, whole[: info.offset + info.nbytes - 1])
    assert f"'{info.name}' needs {info.nbytes} bytes at byte {info.offset}" in message
    assert message.endswith(f"{info.nbytes - 1} are present")
    assert "cut short" in refusal(path, whole[: len(whole) // 2])
    first = min(i.offset for i in GGUFFile.open(tiny_model().write(path)).tensors.values())
    assert refusal(path, whole[:first]).endswith("0 are present")


def test_every_cut_of_the_header_is_refused(path: Path) -> None:
    whole = tiny_model(n_layers=1, vocab_size=16).write(path).read_bytes()
    end = min(info.offset for info in GGUFFile.open(path).tensors.values())
    for length in range(0, end, 7):
        assert refusal(path, whole[:length])


def test_a_missing_last_pad_is_no_fault(path: Path) -> None:
    model = tiny_model(tied=True)
    name = list(model.tensors)[-1]
    whole = model.write(path, alignment=4096).read_bytes()
    info = GGUFFile.open(path).tensors[name]
    assert info.offset + info.nbytes < len(whole)
    path.write_bytes(whole[: info.offset + info.nbytes])
    assert GGUFFile.open(path).tensor_bytes(name).tobytes() == model.tensors[name].data


def test_an_offset_that_wraps_is_refused(path: Path) -> None:
    content = header(1, 0) + tensor_entry("t", [8], offset=2**64 - 32) + bytes(128)
    assert "tensor 't' needs 32 bytes at byte 184467440737095" in refusal(path, content)


def test_an_offset_that_is_not_aligned_is_refused(path: Path) -> None:
    content = header(1, 0) + tensor_entry("t", [8], offset=4) + bytes(128)
    assert refusal(path, content) == "tensor 't' has offset 4, allowed are multiples of 32"


def test_tensors_that_overlap_are_refused(path: Path) -> None:
    entries = tensor_entry("a", [16]) + tensor_entry("b", [8], offset=32)
    assert refusal(path, header(2, 0) + entries + bytes(256)).startswith(
        "tensor 'b' at byte 128 overlaps"
    )


@pytest.mark.parametrize(
    ("dims", "type_id", "expected"),
    [
        ([2**33, 2**31], 0, f"needs {2**66} bytes"),
        ([2**63 - 1, 2**63 - 1], 0, "are present"),
        ([4, 0], 0, "has dimension 1 equal to 0, allowed are 1 to"),
        ([1] * 9, 0, "has 9 dimensions, allowed are at most 4"),
        ([33, 4], 2, "of type q4_0 has rows of 33 elements, allowed are multiples of 32"),
        ([2**63, 1], 0, f"has dimension 0 equal to {2**63}, allowed are 1 to"),
        ([8], 4, "unknown ggml type id 4; known: 0 f32"),
    ],
)
def test_dimensions_and_types(path: Path, dims: list[int], type_id: int, expected: str) -> None:
    message = refusal(path, header(1, 0) + tensor_entry("t", dims, type_id) + bytes(64))
    assert "tensor 't'" in message
    assert expected in message


def test_four_versions_that_are_not_read(path: Path) -> None:
    tail = bytes(16)
    assert "version 1 is too old" in refusal(path, b"GGUF" + pack("<I", 1) + tail)
    assert "unknown GGUF version 0" in refusal(path, b"GGUF" + pack("<I", 0) + tail)
    assert "unknown GGUF version 4" in refusal(path, b"GGUF" + pack("<I", 4) + tail)
    assert "big-endian" in refusal(path, b"GGUF" + pack(">I", 3) + tail)


def test_versions_2_and_3_are_the_same_model(tmp_path: Path) -> None:
    two = GGUFFile.open(tiny_model().write(tmp_path / "two.gguf", version=2))
    three = GGUFFile.open(tiny_model().write(tmp_path / "three.gguf", version=3))
    assert (two.version, three.version) == (2, 3)
    different = [
        i for i, (a, b) in enumerate(
            zip(two.path.read_bytes(), three.path.read_bytes(), strict=True)
        ) if a != b
    ]  # fmt: skip
    assert different == [4]
    assert dict(two.metadata.kinds) == dict(three.metadata.kinds)


def test_what_is_not_a_gguf_file(path: Path, tmp_path: Path) -> None:
    assert "begins with b'PK" in refusal(path, b"PK\x03\x04" + bytes(64))
    assert "empty" in refusal(path, b"")
    assert "not a regular file" in refusal(tmp_path)
    assert "No such file" in refusal(tmp_path / "absent.gguf")
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path / "pipe")
    assert "the file ends inside the version" in refusal(path, b"GGUF\x03")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (header(0, 2**64 - 1), "the number of metadata keys at byte 16 is 18446744073709551615"),
        (header(2**64 - 1, 0), "the number of tensors at byte 8 is 18446744073709551615"),
        (header(1000, 0), "needs at least 24000 bytes, but"),
        (header(0, 1) + pack("<Q", 2**63) + bytes(64), "the length of the name of key 0"),
        (
            header(0, 1) + key("k", "string", pack("<Q", 2**62)) + bytes(9),
            "the length of the value of 'k'",
        ),
        (header(0, 1) + key("k", "array", pack("<IQ", 4, 2**61)), "the length of the value of 'k'"),
        (header(0, 1) + key("k", "array", pack("<IQ", 8, 2**61)), "allowed are at most"),
        (header(0, 1) + key("k", "array", pack("<IQ", 99, 1)), "has element type 99"),
        (header(0, 1) + string("k") + pack("<IQ", 13, 1), "has value type 13"),
        (header(0, 1) + key("k", "bool", b"\x02"), "is a bool of value 2, allowed are 0 and 1"),
        (
            header(0, 1) + key("k", "array", pack("<IQ", 7, 2) + b"\1\3"),
            "holds a boolean of value 3",
        ),
        (header(0, 2) + key("k", "u8", b"\1") * 2, "key 'k' at byte 38 is there twice"),
        (header(2, 0) + tensor_entry("t", [8]) * 2 + bytes(64), "tensor 't' is there twice"),
    ],
)
def test_counts_and_kinds(path: Path, content: bytes, expected: str) -> None:
    assert expected in refusal(path, content)


def test_nesting_is_bounded(path: Path) -> None:
    def nested(depth: int) -> bytes:
        return header(0, 1) + key("k", "array", pack("<IQ", 9, 1) * depth + pack("<IQB", 0, 1, 7))

    path.write_bytes(nested(3))
    assert GGUFFile.open(path).metadata["k"][0][0][0][0] == 7
    assert "nested more than 4 deep" in refusal(path, nested(4))
    assert "nested more than 4 deep" in refusal(path, nested(100_000))


def test_names_from_the_file_are_shown_on_one_line(path: Path) -> None:
    name = "evil\n\x1b[2J" + "x" * 500
    message = refusal(path, header(1, 0) + tensor_entry(name, [0]))
    assert r"'evil\n\x1b[2Jxxx" in message
    assert len(message) < 300


def test_a_string_that_leaves_the_file_is_refused_in_long_arrays(path: Path) -> None:
    model = TinyModel({"k": ["a", "b" * 300, "c"]})
    whole = model.write(path).read_bytes()
    cut = whole[: whole.index(b"bbb") + 100]
    assert "string 1 of the value of 'k'" in refusal(path, cut)
