"""Random damage to a small file: it is read, or refused with our error, and nothing else ever
happens."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from ggufc.compiler.errors import GGUFError
from ggufc.compiler.gguf import GGUFFile
from tests.support.tiny_gguf import tiny_model

ROUNDS = 1500
MEMORY = 64 << 20
INTERESTING = (0, 1, 8, 9, 0x7F, 0x80, 0xFF)


def damaged(whole: bytes, header_size: int, random_: random.Random) -> bytes:
    """The file with a few bytes of its header changed, or cut, or with a piece taken out or
    doubled."""
    content = bytearray(whole)
    at = random_.randrange(header_size)
    kind = random_.randrange(5)
    if kind == 0:
        return whole[: random_.randrange(len(whole))]
    if kind == 1:
        return whole[:at] + whole[at + random_.randrange(1, 16) :]
    if kind == 2:
        return whole[:at] + whole[at : at + random_.randrange(1, 16)] * 2 + whole[at:]
    if kind == 3:
        content[at : at + 8] = random_.randbytes(8)
        return bytes(content)
    for _ in range(random_.randrange(1, 5)):
        content[random_.randrange(header_size)] = random_.choice(INTERESTING)
    return bytes(content)


def read_everything(path: Path) -> None:
    """Open a file and look at all that it holds."""
    opened = GGUFFile.open(path)
    for value in opened.metadata.values():
        list(value) if not isinstance(value, int | float | str) else value
    for name, info in opened.tensors.items():
        assert len(opened.tensor_bytes(name)) == info.nbytes


@pytest.mark.parametrize("seed", range(2))
def test_damaged_files_are_read_or_refused(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    path = tiny_model(n_layers=1, dim=32, hidden_dim=32, vocab_size=24).write(
        tmp_path / "tiny.gguf"
    )
    whole = path.read_bytes()
    header_size = min(info.offset for info in GGUFFile.open(path).tensors.values())
    messages: list[str] = []
    tracemalloc.start()
    try:
        for _ in range(ROUNDS):
            path.write_bytes(damaged(whole, header_size, random_))
            try:
                read_everything(path)
            except GGUFError as error:
                messages.append(str(error))
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
    assert 0 < len(messages) < ROUNDS
    assert not [message for message in messages if "\n" in message]
