"""The programs that ggufc is compared with, each in an environment of its own: llama.cpp, built
from its Python package's source in several configurations, and OpenVINO GenAI.

    python benchmarks/peers.py NAME ...    build these now
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
_AVX2 = "-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON"
_AVX512 = "-DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON"


@dataclass(frozen=True)
class Peer:
    """One way to build and run a program: a package, what it is built with, the script that times
    it, and whether its memory is to lie on huge pages."""

    name: str
    package: str
    script: str
    cmake_args: str = ""
    huge_pages: bool = False
    level: Literal["native", "avx512", "avx2"] = "native"

    @property
    def build(self) -> str:
        """Peers that differ only in how they are run share a build."""
        return self.name.removesuffix("-2m")

    @property
    def pages(self) -> str:
        """The pages that its memory is asked to lie on."""
        return "2 MB" if self.huge_pages else "default"

    def environment(self) -> dict[str, str]:
        """Variables of the process that runs it; its weights go to 2 MB pages where asked for."""
        extra = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"} if self.huge_pages else {}
        return {**os.environ, **extra}


def _llama_cpp(
    name: str, cmake_args: str, level: Literal["native", "avx512", "avx2"], huge: bool = False
) -> Peer:
    arguments = f"{cmake_args} -DGGML_OPENMP=OFF"
    return Peer(name, "llama-cpp-python==0.3.36", "peer_llama_cpp.py", arguments, huge, level=level)


# The build for this machine (AMX included where it has it), AVX-512 without AMX, and AVX2.
PEERS = {
    peer.name: peer
    for peer in (
        _llama_cpp("native", "-DGGML_NATIVE=ON", "native"),
        _llama_cpp("native-2m", "-DGGML_NATIVE=ON", "native", huge=True),
        _llama_cpp("avx512", f"{_AVX2} {_AVX512}", "avx512"),
        _llama_cpp("avx512-2m", f"{_AVX2} {_AVX512}", "avx512", huge=True),
        _llama_cpp("avx2", _AVX2, "avx2"),
        Peer("openvino", "openvino-genai==2026.4.1.0", "peer_openvino.py"),
    )
}


def ensure(peer: Peer, root: Path) -> Path:
    """The peer's Python interpreter, built on first use (ten minutes or more on two cores)."""
    home = root / peer.build
    python, done = home / "bin" / "python", home / "built"
    if done.exists():
        return python
    print(f"building {peer.package} ({peer.build}) in {home}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    install = [str(python), "-m", "pip", "install", "-q"]
    environment = {**os.environ}
    if peer.cmake_args:
        # pip's cache knows a wheel by its source alone: it would hand over another configuration's.
        name = peer.package.partition("=")[0]
        install += ["--no-cache-dir", "--no-binary", name]
        environment |= {"CMAKE_ARGS": peer.cmake_args, **compilers()}
    subprocess.run([*install, peer.package], check=True, env=environment)
    done.write_text(" ".join([peer.package, peer.cmake_args, *compilers().values()]) + "\n")
    return python


def compilers() -> dict[str, str]:
    """clang where there is one: its llama.cpp is the fastest, and gcc 12 miscompiles AMX."""
    for suffix in ("-21", "-20", "-19", "-18", ""):
        if shutil.which(f"clang{suffix}") and shutil.which(f"clang++{suffix}"):
            return {"CC": f"clang{suffix}", "CXX": f"clang++{suffix}"}
    return {}


def main() -> int:
    """Build what the command line names."""
    for name in sys.argv[1:]:
        if name not in PEERS:
            print(f"unknown peer {name!r}; known: {', '.join(PEERS)}", file=sys.stderr)
            return 2
        print(ensure(PEERS[name], HERE.parent / ".cache" / "peers"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
