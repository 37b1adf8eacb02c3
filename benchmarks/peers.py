"""Build llama.cpp from its Python package's source, an environment for each configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "llama-cpp-python==0.3.36"
_AVX2 = "-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON"
_AVX512 = "-DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON"


@dataclass(frozen=True)
class Peer:
    """One way to build and run llama.cpp."""

    name: str
    cmake_args: str
    huge_pages: bool = False

    @property
    def build(self) -> str:
        """Peers that differ only in how they are run share a build."""
        return self.name.removesuffix("-2m")

    def environment(self) -> dict[str, str]:
        """Variables of the process that runs it; its weights go to 2 MB pages where asked for."""
        extra = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"} if self.huge_pages else {}
        return {**os.environ, **extra}


# The build for this machine (AMX included where it has it), AVX-512 without AMX, and AVX2.
PEERS = {
    peer.name: peer
    for peer in (
        Peer("native", "-DGGML_NATIVE=ON -DGGML_OPENMP=OFF"),
        Peer("native-2m", "-DGGML_NATIVE=ON -DGGML_OPENMP=OFF", huge_pages=True),
        Peer("avx512", f"{_AVX2} {_AVX512} -DGGML_OPENMP=OFF"),
        Peer("avx512-2m", f"{_AVX2} {_AVX512} -DGGML_OPENMP=OFF", huge_pages=True),
        Peer("avx2", f"{_AVX2} -DGGML_OPENMP=OFF"),
    )
}


def ensure(peer: Peer, root: Path) -> Path:
    """The peer's Python interpreter, built on first use (ten minutes or more on two cores)."""
    home = root / peer.build
    python, done = home / "bin" / "python", home / "built"
    if done.exists():
        return python
    print(f"building llama.cpp ({peer.build}) in {home}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    environment = {**os.environ, "CMAKE_ARGS": peer.cmake_args, **_compilers()}
    # pip's cache knows a wheel by its source alone: it would hand over another configuration's.
    install = [str(python), "-m", "pip", "install", "-q", "--no-cache-dir"]
    source = ["--no-binary", "llama-cpp-python", PACKAGE]
    subprocess.run([*install, *source], check=True, env=environment)
    done.touch()
    return python


def _compilers() -> dict[str, str]:
    """clang where there is one: its llama.cpp is the fastest, and gcc 12 miscompiles AMX."""
    for suffix in ("-21", "-20", "-19", "-18", ""):
        if shutil.which(f"clang{suffix}") and shutil.which(f"clang++{suffix}"):
            return {"CC": f"clang{suffix}", "CXX": f"clang++{suffix}"}
    return {}
