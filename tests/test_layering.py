"""Who may import whom, as docs/architecture.md says, read from the syntax trees of all files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("ir", "tokenizer", "backends", "runtime", "compiler", "ggufc")

VERSION = "ggufc.__version__"

# What each room may import besides itself; a longer name allows only that part of a room.
ALLOWED = {
    "ir": (),
    "tokenizer": (),
    "backends": ("ggufc.ir",),
    "runtime": ("ggufc.tokenizer",),
    "compiler": (
        "ggufc.ir",
        "ggufc.backends",
        "ggufc.tokenizer",
        "ggufc.runtime.bundle",
        "ggufc.runtime.prompt",
    ),
    "ggufc": ("ggufc",),
}


def imports(tree: ast.AST) -> Iterator[tuple[int, str, int]]:
    """Line, module and level (dots) of each import in a file, those inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module == "ggufc":
                yield from ((node.lineno, f"ggufc.{a.name}", node.level) for a in node.names)
            else:
                yield node.lineno, module, node.level


def within(module: str, package: str) -> bool:
    """Whether `module` is `package` or inside it."""
    return module == package or module.startswith(package + ".")


def own_package(room: str) -> str:
    """The import name of a room."""
    return "ggufc" if room == "ggufc" else f"ggufc.{room}"


def violations(room: str, source: str) -> list[str]:
    """What is wrong about the imports of one file of a room."""
    found = []
    for line, module, level in imports(ast.parse(source)):
        if level:
            found.append(f"{line}: relative import")
        elif module.partition(".")[0] in ROOMS[:-1]:
            found.append(f"{line}: import of {module} without ggufc")
        elif within(module, "ggufc") and not any(
            within(module, allowed) for allowed in (own_package(room), *ALLOWED[room], VERSION)
        ):
            found.append(f"{line}: {room} may not import {module}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_imports(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{problem}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for problem in violations(room, path.read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("room", "source", "problem"),
    [
        ("ir", "from ggufc.tokenizer import x", "1: ir may not import ggufc.tokenizer"),
        (
            "runtime",
            "def f():\n    import ggufc.compiler",
            "2: runtime may not import ggufc.compiler",
        ),
        (
            "compiler",
            "import ggufc.runtime.model",
            "1: compiler may not import ggufc.runtime.model",
        ),
        ("compiler", "from ggufc import cli", "1: compiler may not import ggufc.cli"),
        ("ggufc", "import ir", "1: import of ir without ggufc"),
        ("ir", "from . import core", "1: relative import"),
    ],
)
def test_the_check_itself_finds(room: str, source: str, problem: str) -> None:
    assert violations(room, source) == [problem]


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("ir", "from ggufc.ir import core"),
        ("compiler", "from ggufc.runtime.bundle import Manifest"),
        ("runtime", "import numpy"),
        ("ggufc", "from ggufc.compiler.driver import compile_model"),
    ],
)
def test_the_check_itself_allows(room: str, source: str) -> None:
    assert violations(room, source) == []
