"""Models in several files."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from ggufc.compiler.errors import GGUFError
from ggufc.compiler.gguf import GGUFFile
from tests.support.tiny_gguf import tiny_model, write_part


def refusal(path: Path) -> str:
    with pytest.raises(GGUFError) as caught:
        GGUFFile.open(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("given", [0, 1, 2])
def test_any_part_gives_the_whole(tmp_path: Path, given: int) -> None:
    model = tiny_model()
    paths = model.write_split(tmp_path, 3)
    opened = GGUFFile.open(paths[given])
    assert opened.paths == paths
    assert list(opened.tensors) == list(model.tensors)
    assert opened.metadata.get_str("general.architecture") == "llama"
    assert {info.path for info in opened.tensors.values()} == set(paths)
    for name, tensor in model.tensors.items():
        assert opened.tensor_bytes(name).tobytes() == tensor.data
    joined = b"".join(path.read_bytes() for path in paths)
    assert (opened.size, opened.sha256()) == (len(joined), hashlib.sha256(joined).hexdigest())


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    paths = tiny_model().write_split(tmp_path, 2)
    paths[1].unlink()
    assert refusal(paths[0]).endswith("the model has 2 parts, 1 missing: tiny-00002-of-00002.gguf")
    tiny_model().write_split(tmp_path, 2)
    paths[0].unlink()
    assert refusal(paths[1]).endswith("1 missing: tiny-00001-of-00002.gguf")


def test_joined_or_renamed_parts_are_refused(tmp_path: Path) -> None:
    paths = tiny_model().write_split(tmp_path, 2)
    joined = tmp_path / "joined.gguf"
    joined.write_bytes(b"".join(path.read_bytes() for path in paths))
    assert "must end in -00001-of-00002.gguf" in refusal(joined)
    renamed = tmp_path / "tiny-00003-of-00002.gguf"
    shutil.copy(paths[1], renamed)
    assert "must end in -00002-of-00002.gguf" in refusal(renamed)


def test_a_count_that_is_not_the_name_s_is_refused(tmp_path: Path) -> None:
    model = tiny_model()
    path = tmp_path / "tiny-00001-of-00002.gguf"
    write_part(path, {**model.metadata, "split.no": 0, "split.count": 3}, model.tensors)
    assert "must end in -00001-of-00003.gguf" in refusal(path)
    write_part(path, {**model.metadata, "split.no": 0, "split.count": -2}, model.tensors)
    assert "key 'split.count' is -2" in refusal(path)


def test_the_wrong_file_under_a_part_s_name_is_refused(tmp_path: Path) -> None:
    paths = tiny_model().write_split(tmp_path, 2)
    shutil.copy(paths[0], paths[1])
    assert "wrong part: key 'split.no' is 0, by its name it must be 1" in refusal(paths[0])
    tiny_model().write(paths[1])
    assert "key 'split.count' is missing" in refusal(paths[0])


def test_a_tensor_in_two_parts_is_refused(tmp_path: Path) -> None:
    model = tiny_model()
    paths = model.write_split(tmp_path, 2)
    keys = {"split.no": 1, "split.count": 2}
    write_part(paths[1], keys, {"token_embd.weight": model.tensors["token_embd.weight"]})
    assert refusal(paths[0]).endswith(
        "'token_embd.weight' is also in part tiny-00001-of-00002.gguf"
    )


def test_a_total_that_is_not_reached_is_refused(tmp_path: Path) -> None:
    model = tiny_model()
    paths = model.write_split(tmp_path, 2)
    write_part(paths[1], {"split.no": 1, "split.count": 2}, {})
    announced = len(model.tensors)
    assert f"key 'split.tensors.count' is {announced}, the parts hold" in refusal(paths[0])


def test_one_of_one_is_an_ordinary_file(tmp_path: Path) -> None:
    path = tiny_model().write_split(tmp_path, 1)[0]
    assert len(GGUFFile.open(path).tensors) == len(tiny_model().tensors)
    renamed = path.rename(tmp_path / "any name.gguf")
    assert len(GGUFFile.open(renamed).tensors) == len(tiny_model().tensors)
