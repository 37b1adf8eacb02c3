"""How much of an array lies on huge pages, by what Linux says of the region that it is in."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ggufc.runtime.memory import address, allocate, huge_part

OTHER = """10000-20000 r--p 00000000 00:00 0
Rss:                  64 kB
AnonHugePages:        64 kB
"""


def smaps(folder: Path, start: int, stop: int, resident: int, huge: int) -> Path:
    """The text of /proc/self/smaps with one region that counts."""
    path = folder / "smaps"
    path.write_text(
        f"{OTHER}{start:x}-{stop:x} rw-p 00000000 00:00 0   [anon: a name: with colons]\n"
        f"Size:               8192 kB\nRss:  {resident} kB\nAnonHugePages:   {huge} kB\n{OTHER}"
    )
    return path


def test_the_region_of_the_array_counts(tmp_path: Path) -> None:
    array = np.zeros(100, np.uint8)
    at = address(array)
    assert huge_part(array, smaps(tmp_path, at - 50, at + 50, 8192, 6144)) == 0.75
    assert huge_part(array, smaps(tmp_path, at, at + 1, 8192, 0)) == 0.0
    assert huge_part(array, smaps(tmp_path, at, at + 1, 0, 0)) is None
    assert huge_part(array, smaps(tmp_path, at + 1, at + 9, 8192, 8192)) is None
    assert huge_part(array, tmp_path / "nothing") is None


def test_small_pages_are_none(tmp_path: Path) -> None:
    area = allocate(8 << 20, huge=False)
    area[:] = 1
    assert huge_part(area) in (0.0, None)
