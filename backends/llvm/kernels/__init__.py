"""The emitters of kernels, one file a family of ops."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every file of this folder; each registers its emitters."""
    for file in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{file.name}")
