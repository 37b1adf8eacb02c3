"""The instruction sets that objects are made for: what each needs, how its kernels look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ggufc.ir import IRError


@dataclass(frozen=True)
class Isa:
    """One level of one architecture.

    `features` are LLVM's names for what generated code may use; the loader requires all of them.
    `dot` names the lowering of the unsigned x signed byte dot product.
    `vector_bits` is the width of a register, `registers` how many there are.
    """

    name: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    dot: Literal["vnni512", "avx2", "sdot", "generic"]
    vector_bits: int
    registers: int
    has_f16: bool
    tiles: bool = False

    @property
    def machine(self) -> str:
        """The processor family: x86_64 or aarch64."""
        return self.triple.split("-")[0]

    @property
    def has_bf16_dot(self) -> bool:
        """Whether pairs of bf16 are multiplied and added to float32 by one instruction."""
        return "avx512bf16" in self.features

    @property
    def prefill_compute(self) -> Literal["int8", "bf16"]:
        """What prefill multiplies quantised weights in."""
        return "bf16" if self.tiles else "int8"


_LINUX_X86, _LINUX_ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_V3 = (
    "sse3",
    "ssse3",
    "sse4.1",
    "sse4.2",
    "popcnt",
    "cx16",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "bmi",
    "bmi2",
    "lzcnt",
    "movbe",
)
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vnni")
_V4_BF16 = (*_V4, "avx512bf16")
_AMX = (*_V4_BF16, "amx-tile", "amx-bf16", "amx-int8")

# From the most capable to the least: the loader takes the first that the processor can run.
ISAS: dict[str, Isa] = {
    isa.name: isa
    for isa in (
        Isa("x86-64-amx", _LINUX_X86, "x86-64", _AMX, "vnni512", 512, 32, True, tiles=True),
        Isa("x86-64-v4-bf16", _LINUX_X86, "x86-64", _V4_BF16, "vnni512", 512, 32, True),
        Isa("x86-64-v4-vnni", _LINUX_X86, "x86-64", _V4, "vnni512", 512, 32, True),
        Isa("x86-64-v3", _LINUX_X86, "x86-64", _V3, "avx2", 256, 16, True),
        Isa("x86-64", _LINUX_X86, "x86-64", (), "generic", 128, 16, False),
        Isa(
            "aarch64-dotprod",
            _LINUX_ARM,
            "generic",
            ("neon", "dotprod", "fullfp16"),
            "sdot",
            128,
            32,
            True,
        ),
        Isa("aarch64", _LINUX_ARM, "generic", ("neon",), "generic", 128, 32, True),
    )
}


def isa_named(name: str) -> Isa:
    """The instruction set of this name; IRError lists the known ones."""
    if name not in ISAS:
        raise IRError(f"instruction set {name!r} is unknown; known: {', '.join(ISAS)}")
    return ISAS[name]
