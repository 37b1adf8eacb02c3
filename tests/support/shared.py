"""The full set of fixtures, which lies beside the repository where it is present."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def shared_fixtures() -> Path | None:
    """The folder of all fixtures, or None where there is none."""
    path = ROOT.parent / "shared" / "fixtures"
    return path if path.is_dir() else None


def require_shared(part: str) -> Path:
    """The file or folder `part` of the full set; skips the calling test, by name, where it is
    absent."""
    folder = shared_fixtures()
    if folder is None or not (folder / part).exists():
        pytest.skip(f"fixture {part} is not here")
    return folder / part
