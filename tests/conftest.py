"""Fixtures that several rooms use: bundles of tiny models, compiled once a run."""

from __future__ import annotations

from pathlib import Path

import pytest


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
