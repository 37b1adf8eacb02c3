"""Models in several files: finding the parts from any one of them and checking that they belong
together."""

import re
from pathlib import Path

from ggufc.compiler.errors import GGUFError, listing, quoted, shown
from ggufc.compiler.gguf.constants import (
    MAX_SPLITS,
    SPLIT_COUNT_KEY,
    SPLIT_NUMBER_KEY,
    SPLIT_TENSORS_KEY,
)
from ggufc.compiler.gguf.part import Part, read_part

NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


def all_parts(given: Part) -> list[Part]:
    """The parts of the model that `given` is a part of, in order; just `given` when the model is
    not split."""
    count = given.metadata.get_int(SPLIT_COUNT_KEY, 1)
    if count in (0, 1):
        return [given]
    if not 0 < count <= MAX_SPLITS:
        raise given.metadata.fail(
            f"key '{SPLIT_COUNT_KEY}' is {count}, allowed are 0 to {MAX_SPLITS}"
        )
    paths = sibling_paths(given, count)
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise given.metadata.fail(
            f"the model has {count} parts, {len(missing)} missing: {listing(missing)}"
        )
    parts = [given if path == given.path else read_part(path) for path in paths]
    for number, part in enumerate(parts):
        check_part(part, number, count)
    check_tensors(parts)
    return parts


def sibling_paths(given: Part, count: int) -> list[Path]:
    """The paths of all parts, from the name of one."""
    number = given.metadata.get_int(SPLIT_NUMBER_KEY)
    expected = f"-{number + 1:05d}-of-{count:05d}.gguf"
    match = NAME.fullmatch(given.path.name)
    if match is None or not given.path.name.endswith(expected):
        raise given.metadata.fail(
            f"this is part {number + 1} of a model in {count} parts, so its name must end in"
            f" {expected}; keep the parts' own names in one folder, neither renamed nor joined"
        )
    stem = match["stem"]
    return [given.path.with_name(f"{stem}-{i + 1:05d}-of-{count:05d}.gguf") for i in range(count)]


def check_part(part: Part, number: int, count: int) -> None:
    """Refuse a part whose own keys say that it is another one."""
    for key, expected in ((SPLIT_COUNT_KEY, count), (SPLIT_NUMBER_KEY, number)):
        found = part.metadata.get_int(key)
        if found != expected:
            raise part.metadata.fail(
                f"wrong part: key '{key}' is {found}, by its name it must be {expected}"
            )


def check_tensors(parts: list[Part]) -> None:
    """Refuse a tensor that is in two parts, and a total that is not the one announced."""
    home: dict[str, Part] = {}
    for part in parts:
        for info in part.tensors:
            if info.name in home:
                raise GGUFError(
                    f"{shown(str(part.path), 400)}: tensor {quoted(info.name)} is also in part"
                    f" {shown(home[info.name].path.name)}"
                )
            home[info.name] = part
    announced = parts[0].metadata.get_int(SPLIT_TENSORS_KEY, len(home))
    if announced != len(home):
        raise parts[0].metadata.fail(
            f"key '{SPLIT_TENSORS_KEY}' is {announced}, the parts hold {len(home)} tensors"
        )
