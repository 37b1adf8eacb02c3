"""Fixtures that several rooms use: bundles of tiny models, compiled once a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.golden import Golden

# Property tests look for wrong values; a slow machine is none.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes what golden tests find instead of comparing it."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares text with files of tests/data."""
    return Golden(update=bool(request.config.getoption("--update-golden")))


@pytest.fixture
def known_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generate code once for each program of this run: for tests that are about something else."""
    from ggufc.compiler import driver
    from tests.support.bundles import code_of

    monkeypatch.setattr(driver, "compile_module", code_of)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with random float32 weights; tests copy it before they change it."""
    from tests.support.bundles import tiny_bundle

    return tiny_bundle(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def alphabet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that says the alphabet."""
    from tests.support.bundles import alphabet_bundle

    return alphabet_bundle(tmp_path_factory.mktemp("alphabet"))
