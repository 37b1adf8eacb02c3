"""Bundles of benchmark models, compiled once for each state of the compiler."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMPILER = ("ir", "compiler", "backends", "tokenizer", "runtime")


def compiler_digest(root: Path = ROOT) -> str:
    """The SHA-256 of all that a compile depends on."""
    digest = hashlib.sha256()
    for folder in COMPILER:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def ensure_bundle(model: Path, folder: Path, isas: list[str]) -> Path:
    """The bundle of a model with code for these instruction sets, made again where the compiler,
    the instruction sets or the file are others than they were."""
    bundle, stamp = folder / f"{model.stem}.ggufc", folder / f"{model.stem}.stamp"
    found = model.stat()
    wanted = f"{compiler_digest()} {','.join(isas)} {found.st_size} {found.st_mtime_ns}\n"
    if bundle.exists() and stamp.exists() and stamp.read_text() == wanted:
        return bundle
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ggufc", "compile", str(model), "-o", str(bundle)]
    command += ["--force", "--target", ",".join(isas)]
    subprocess.run(command, check=True, stdout=sys.stderr)
    stamp.write_text(wanted)
    return bundle
