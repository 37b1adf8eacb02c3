"""What a well-formed file gives back: every kind of metadata, tensors, and their bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from struct import pack

import numpy as np
import pytest

from ggufc.compiler.errors import GGUFError
from ggufc.compiler.gguf import GGUFFile, GGUFWriter
from ggufc.compiler.gguf.arrays import WALK_CHUNK
from ggufc.compiler.gguf.constants import FLOAT_KINDS, INTEGER_KINDS
from tests.support.raw_gguf import header, key
from tests.support.tiny_gguf import TinyModel, tiny_model


def reopened(tmp_path: Path, **metadata: object) -> GGUFFile:
    return GGUFFile.open(TinyModel(dict(metadata)).write(tmp_path / "keys.gguf"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("u8", 255), ("i8", -128), ("u16", 65535), ("i16", -32768),
        ("u32", 2**32 - 1), ("i32", -(2**31)), ("u64", 2**64 - 1),
        ("i64", -(2**63)), ("f32", 0.5), ("f64", 0.1),
        ("bool", True), ("string", "ü\0x"),
    ],
)  # fmt: skip
def test_every_kind_of_value_alone_in_arrays_and_nested(
    tmp_path: Path, kind: str, value: object
) -> None:
    opened = reopened(
        tmp_path, one=(value, kind), many=([value] * 3, kind), deep=([[value], [value] * 2], kind)
    )
    found = opened.metadata
    assert (found["one"], found.kinds["one"]) == (value, kind)
    assert found.get_array("many").values == [value] * 3
    assert found.get_array("many").kind == kind
    assert [list(inner) for inner in found["deep"]] == [[value], [value] * 2]
    assert found["many"][-1] == value
    assert found["many"][1:] == [value] * 2


def test_empty_arrays_and_strings(tmp_path: Path) -> None:
    found = reopened(
        tmp_path, s="", none=([], "string"), numbers=([], "f32"), gap=["", "a", ""]
    ).metadata
    assert found["s"] == ""
    assert (list(found["none"]), list(found["numbers"])) == ([], [])
    assert list(found["gap"]) == ["", "a", ""]


def test_strings_that_are_not_utf8_survive(tmp_path: Path) -> None:
    found = reopened(tmp_path, k=[b"\xff", b"ok", b"\xed\xa0\xbd"]).metadata["k"]
    assert found.raw() == [b"\xff", b"ok", b"\xed\xa0\xbd"]
    assert [text.encode("utf-8", "surrogateescape") for text in found] == found.raw()


@pytest.mark.parametrize("long_at", [None, 0, 100, WALK_CHUNK - 1, WALK_CHUNK, 2 * WALK_CHUNK])
def test_long_arrays_of_strings_with_short_and_long_members(
    tmp_path: Path, long_at: int | None
) -> None:
    strings = [f"token {i}" for i in range(2 * WALK_CHUNK + 3)]
    if long_at is not None:
        strings[long_at] = "x" * 1000
    opened = reopened(tmp_path, k=strings, after=7)
    assert opened.metadata["after"] == 7
    assert opened.metadata["k"].head(2) == strings[:2]
    assert opened.metadata["k"].values == strings


def test_number_arrays_are_views_of_the_file(tmp_path: Path) -> None:
    array = reopened(tmp_path, k=([1.0, 2.5], "f32")).metadata["k"].numpy()
    assert array.dtype == np.float32
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_typed_getters(tmp_path: Path) -> None:
    found = reopened(tmp_path, i=(3, "u64"), f=(1.5, "f64"), s="x", b=True, a=[1, 2]).metadata
    assert (found.get_int("i"), found.get_float("f"), found.get_float("i")) == (3, 1.5, 3.0)
    assert (found.get_str("s"), found.get_bool("b")) == ("x", True)
    assert found.get_array("a", INTEGER_KINDS).values == [1, 2]
    assert found.get_int("absent", 5) == 5
    assert found.get_str("absent", None) is None


def test_typed_getters_refuse_in_one_line(tmp_path: Path) -> None:
    found = reopened(tmp_path, i=3, f=1.5, s="x", b=True, a=[1, 2]).metadata

    def message(getter: str, name: str, *rest: object) -> str:
        with pytest.raises(GGUFError) as caught:
            getattr(found, getter)(name, *rest)
        return str(caught.value).partition("keys.gguf: ")[2]

    assert message("get_int", "s") == "key 's' is of type string, wanted an integer"
    assert message("get_int", "b") == "key 'b' is of type bool, wanted an integer"
    assert message("get_int", "f", 1) == "key 'f' is of type f32, wanted an integer"
    assert message("get_float", "a") == "key 'a' is of type array of u32, wanted a number"
    assert message("get_bool", "i") == "key 'i' is of type u32, wanted a bool"
    assert message("get_str", "absent") == "key 'absent' is missing (a string wanted)"
    assert message("get_array", "a", FLOAT_KINDS) == (
        "key 'a' is of type array of u32, wanted an array of f32 or f64"
    )


def test_tensors_come_back_as_they_were_written(tmp_path: Path) -> None:
    model = tiny_model(type_name="q4_1")
    opened = GGUFFile.open(model.write(tmp_path / "tiny.gguf"))
    assert list(opened.tensors) == list(model.tensors)
    for name, tensor in model.tensors.items():
        info = opened.tensors[name]
        assert (info.type_name, info.shape) == (tensor.type_name, tensor.shape)
        assert opened.tensor_bytes(name).tobytes() == tensor.data
        assert not opened.tensor_bytes(name).flags.writeable
    with pytest.raises(GGUFError, match="there is no tensor 'blk\\.9\\.foo'"):
        opened.tensor_bytes("blk.9.foo")


def test_scalars_and_four_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "t.gguf"
    with GGUFWriter(path) as writer:
        writer.add_tensor("scalar", "f32", (), pack("<f", 2.0))
        writer.add_tensor("four", "i8", (2, 3, 4, 5), bytes(120))
    opened = GGUFFile.open(path)
    assert opened.tensors["scalar"].shape == ()
    assert opened.tensors["four"].shape == (2, 3, 4, 5)
    assert opened.tensors["four"].nbytes == 120


def test_size_and_hash(tmp_path: Path) -> None:
    path = tiny_model().write(tmp_path / "tiny.gguf")
    with GGUFFile.open(path) as opened:
        assert opened.size == path.stat().st_size
        assert opened.sha256() == hashlib.sha256(path.read_bytes()).hexdigest()


def test_views_outlive_the_file(tmp_path: Path) -> None:
    model = tiny_model()
    with GGUFFile.open(model.write(tmp_path / "tiny.gguf")) as opened:
        view = opened.tensor_bytes("output.weight")
    assert view.tobytes() == model.tensors["output.weight"].data


def test_the_writer_streams_and_counts_bytes(tmp_path: Path) -> None:
    path = tmp_path / "stream.gguf"
    with GGUFWriter(path) as writer:
        writer.add_tensor("t", "f32", (4, 2), lambda: (np.full(2, i, "<f4") for i in range(4)))
    values = GGUFFile.open(path).tensor_bytes("t").view("<f4").reshape(4, 2)
    assert values[:, 0].tolist() == [0, 1, 2, 3]
    with pytest.raises(GGUFError, match="takes 32 bytes, 4 were given"), GGUFWriter(path) as writer:
        writer.add_tensor("t", "f32", (4, 2), bytes(4))


def test_metadata_can_be_written_again_with_its_kinds(tmp_path: Path) -> None:
    first = reopened(
        tmp_path, types=([1, 2], "i8"), words=[b"\xff", "a"], deep=([[1], [2]], "u16")
    ).metadata
    again = GGUFFile.open(TinyModel(dict(first)).write(tmp_path / "again.gguf")).metadata
    assert again.kind_of("types") == "array of i8"
    assert again["words"].raw() == first["words"].raw()
    assert again["deep"][0].kind == "u16"


def test_the_bytes_of_a_file_are_as_the_format_says(tmp_path: Path) -> None:
    path = tmp_path / "plain.gguf"
    with GGUFWriter(path) as writer:
        writer.add_metadata("k", 7)
    whole = header(0, 1) + key("k", "u32", pack("<I", 7))
    assert path.read_bytes() == whole + bytes(-len(whole) % 32)
