"""Golden files: text that a change of code may only change on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True)
class Golden:
    """Compares text with a file of tests/data, or writes the file where `update` is set."""

    update: bool

    def check(self, name: str, text: str) -> None:
        """Fail unless `text` is what the file `name` holds."""
        path = DATA / name
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert path.is_file(), f"{path} is missing; make it with --update-golden"
        assert text == path.read_text("utf-8"), f"{path} differs; see --update-golden"
