"""Results of made-up rounds."""

from __future__ import annotations

from typing import Any

from results import Results, Round

MACHINE: dict[str, Any] = {
    "processor": "Some CPU",
    "features": ["avx2", "avx512f"],
    "processors": 2,
    "memory_bytes": 8 << 30,
    "kernel": "6.1",
    "huge_pages": "madvise",
    "python": "3.11",
    "ggufc": "0.1.0",
    "commit": "abc",
}
SETTINGS = {
    "threads": 2,
    "prompt": 512,
    "generate": 128,
    "context": 4096,
    "long": 4096,
    "depth": 128,
    "steps": 32,
    "sequences": 8,
}
BEST, OTHER = "ggufc", "ggufc-x86-64-v3"
WORK = {
    "decode_weight_bytes": 100,
    "prefill_flops": 512 * 1000,
    "prefill_unit": "int8_dot",
    "kv_bytes_short": 10,
    "kv_bytes_long": 60,
}
LIMITS = {
    "read": {"2m": 1000.0, "4k": 500.0, "cache": 9000.0},
    "operations": {"int8_dot": 1e6, "f32_fma": 1e5},
}
OURS = {
    "huge_weights": 1.0,
    "python_greedy": 0.02,
    "python_sampled": 0.04,
    "first_token_s": 0.5,
    "prefill_long": 250.0,
    "decode_short": 8.0,
    "decode_long": 4.0,
    "together": 40.0,
    "alone": 8.0,
}


def results_of(
    model: str, ours: list[tuple[float, float]], peer: list[tuple[float, float]]
) -> Results:
    """Rounds with these speeds, prefill and decode, of ggufc's best code and of every peer."""
    peers = {
        name: {"program": "llama", "flags": "-DX=ON", "pages": "2 MB", "threads": 2}
        for name in ("native", "avx512", "avx2")
    }
    isas = {BEST: "x86-64-v4-bf16", OTHER: "x86-64-v3"}
    rounds = []
    for (prefill, decode), (slow_prefill, slow_decode) in zip(ours, peer, strict=True):
        figures = {BEST: {**OURS, "prefill": prefill, "decode": decode}}
        figures[OTHER] = {"prefill": prefill / 2, "decode": decode / 2}
        figures |= {name: {"prefill": slow_prefill, "decode": slow_decode} for name in peers}
        rounds.append(Round([0.1] * 3, [2.0] * 3, {"x86-64-v4-bf16": LIMITS}, figures))
    ours_described = {
        name: {"program": "ggufc", "isa": isa, "threads": 2} for name, isa in isas.items()
    }
    return Results(
        model,
        10**8,
        MACHINE,
        SETTINGS,
        ours_described | peers,
        {name: WORK for name in isas},
        rounds,
    )
