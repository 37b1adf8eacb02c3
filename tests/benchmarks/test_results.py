"""Ratios, shares and goals of made-up results, by hand; the page and the picture of them."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from goals import verdicts
from plot import bars, plot
from report import page
from results import Results, level_of, load_all

from tests.benchmarks.samples import BEST, OTHER, results_of

DRIFTING = results_of(
    "qwen3-0.6b-q4_0",
    [(500.0, 8.0), (250.0, 4.0), (1000.0, 9.0)],
    [(100.0, 4.0), (50.0, 2.0), (250.0, 3.0)],
)


def test_ratios_are_of_the_same_round() -> None:
    """The machine's speed changed by four between rounds, the ratios hardly."""
    assert DRIFTING.ratios(BEST, "native", "prefill") == [5.0, 5.0, 4.0]
    assert DRIFTING.ratios(BEST, "avx512", "decode") == [2.0, 2.0, 3.0]
    assert DRIFTING.ratios(OTHER, "avx2", "prefill") == [2.5, 2.5, 2.0]


def test_who_is_compared_with_whom() -> None:
    assert DRIFTING.ours() == [BEST, OTHER]
    assert DRIFTING.opponents(BEST) == ["native", "avx512"]
    assert DRIFTING.opponents(OTHER) == ["avx2"]
    levels = [level_of(isa) for isa in ("x86-64-amx", "x86-64-v4-vnni", "x86-64-v3", "aarch64")]
    assert levels == ["native", "avx512", "avx2", "native"]


def test_shares_of_the_limits_of_the_round() -> None:
    assert DRIFTING.read_shares(BEST) == [0.8, 0.4, 0.9]
    assert DRIFTING.operations_shares(BEST) == [0.5, 0.25, 1.0]
    assert DRIFTING.pages(BEST) == "2m"
    assert DRIFTING.pages("native") == "4k"


def test_growth_leaves_out_the_bytes_of_the_cache() -> None:
    # A step takes 1/8 s after a short text, 1/4 s after a long one, of which 50 bytes at 500 B/s.
    assert DRIFTING.long_decode(BEST) == pytest.approx([(0.25 - 0.1) * 8] * 3)


def test_goals() -> None:
    found = {v.goal: v for v in verdicts(DRIFTING)}
    assert found["prefill over llama.cpp, AMX, 2 MB pages"].reached is None
    avx512 = found["prefill over llama.cpp, AVX-512"]
    assert (avx512.found, avx512.limit, avx512.reached) == (5.0, 3.0, True)
    avx2 = found["decode over llama.cpp, AVX2"]
    assert (avx2.found, avx2.reached) == (1.0, False)
    assert found["decode: weight bytes/s over read bandwidth"].found == 0.8
    assert found["prefill: operations/s over the tiles' limit"].found is None
    assert found["8 sequences together over one"].found == 5.0
    assert found["process start to first token, s"].reached is True
    assert found["prefill per token with 4096 over 512 tokens"].found == 2.0
    assert found["decode after 4096 over 128 tokens, cache bytes aside"].reached is True


def test_light_models_have_goals_of_their_own() -> None:
    light = results_of("model-q8_0", [(1.0, 1.0)], [(1.0, 1.0)])
    limits = {v.goal: v.limit for v in verdicts(light)}
    assert limits["decode over llama.cpp, AMX, default pages"] == 1.4
    assert "process start to first token, s" not in limits
    heavy = {v.goal: v.limit for v in verdicts(DRIFTING)}
    assert heavy["decode over llama.cpp, AMX, default pages"] == 1.7


def test_a_contestant_without_figures_is_not_measured() -> None:
    results = results_of("m", [(4.0, 2.0)], [(2.0, 1.0)])
    for one in results.rounds:
        del one.figures["avx512"]
    results.errors["avx512"] = "ended with -4"
    assert results.ratios(BEST, "avx512", "prefill") == []
    assert {v.goal: v for v in verdicts(results)}["decode over llama.cpp, AVX-512"].found is None
    assert "* avx512: not measured: ended with -4" in page([results])


def test_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    DRIFTING.save(tmp_path / "a.json")
    assert load_all(tmp_path) == [DRIFTING]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    (tmp_path / "b.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="not results in format 1"):
        Results.load(tmp_path / "b.json")


def test_page() -> None:
    other = results_of("llama-3.2-1b-q4_k_m", [(4.0, 2.0)], [(2.0, 1.0)])
    lines = page([DRIFTING, other]).splitlines()
    native = next(line for line in lines if line.startswith("| native | 100.0 (50.0-250.0)"))
    assert native.endswith("| not measured | 5.00 | 2.00 |  |  |")
    assert "| goal | qwen3-0.6b-q4_0 | llama-3.2-1b-q4_k_m |" in lines
    assert "| prefill over llama.cpp, AVX-512 | 5 >= 3: yes | 2 >= 3: **no** |" in lines
    assert "| prefill over llama.cpp, AMX, 2 MB pages | not measured | not measured |" in lines
    assert any("Some CPU, 2 processors, 8 GiB" in line for line in lines)
    assert "* load average before 0.1-0.1, after 2.0" in lines


def test_plot() -> None:
    found = list(bars(DRIFTING))
    assert [(bar.label, bar.figure) for bar in found] == [
        ("ggufc over native", "prefill"),
        ("ggufc over native", "decode"),
        ("ggufc over avx512", "prefill"),
        ("ggufc over avx512", "decode"),
        ("ggufc-x86-64-v3 over avx2", "prefill"),
        ("ggufc-x86-64-v3 over avx2", "decode"),
    ]
    hostile = results_of("a<b>&'c'", [(4.0, 2.0)], [(2.0, 1.0)])
    root = ElementTree.fromstring(plot([DRIFTING, hostile]))
    space = "{http://www.w3.org/2000/svg}"
    texts = [node.text for node in root.iter(f"{space}text")]
    assert "a<b>&'c'" in texts
    assert texts.count("5.00") == 2
    wide = [node for node in root.iter(f"{space}rect") if node.get("fill") == "#2b6cb0"]
    widths = [float(node.get("width") or 0) for node in wide]
    # The legend, then three bars for each model, to one scale.
    assert len(widths) == 7
    assert widths[1] / widths[3] == pytest.approx(5.0 / 2.5, rel=1e-3)
    assert max(float(n.get("x") or 0) + float(n.get("width") or 0) for n in wide) <= 860


def test_plot_of_nothing() -> None:
    assert ElementTree.fromstring(plot([])).tag.endswith("svg")
