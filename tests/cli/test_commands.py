"""Each command on a model that says the alphabet: what it prints, and the JSON shapes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from ggufc.cli import COMMANDS
from ggufc.runtime.bundle import Bundle
from tests.support.bundles import END, letters
from tests.support.cli import Capture, assert_one_line, run_here, run_program

PLAIN = ("--no-template", "-t", "1")


def test_run_streams_text(alphabet: Path, capsys: Capture) -> None:
    code, out, err = run_here(capsys, "run", alphabet, "-p", "w", *PLAIN)
    assert (code, out, err) == (0, "xyz\n", "")


def test_run_prints_json(alphabet: Path, capsys: Capture) -> None:
    code, out, _ = run_here(
        capsys, "run", alphabet, "-p", "ab", *PLAIN, "--stop", "fg", "--stop", "q", "--json"
    )
    report = json.loads(out)
    timings = report.pop("timings")
    assert code == 0
    assert report == {
        "text": "cde",
        "ids": letters("cdefg"),
        "prompt_ids": letters("ab"),
        "finish_reason": "stop_string",
        "stop": "fg",
        "usage": {"prompt_tokens": 2, "completion_tokens": 5, "cached_tokens": 0},
    }
    assert set(timings) == {
        "load_s",
        "prefill_s",
        "decode_s",
        "prefill_tok_s",
        "decode_tok_s",
        "first_token_s",
    }
    assert all(value > 0 for value in timings.values())


def test_run_reads_files_and_standard_input(
    alphabet: Path, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prompt").write_text("x")
    assert run_here(capsys, "run", alphabet, "-f", tmp_path / "prompt", *PLAIN)[1] == "yz\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"y")))
    assert run_here(capsys, "run", alphabet, *PLAIN)[1] == "z\n"


def test_end_token_in_the_prompt_text(alphabet: Path, capsys: Capture) -> None:
    """Native text turns the spelling into the token, literal text does not."""
    for flags, expected in (((), [END]), (("--literal",), None)):
        _, out, _ = run_here(
            capsys, "run", alphabet, "-p", "</s>", *PLAIN, *flags, "-n", "1", "--json"
        )
        ids = json.loads(out)["prompt_ids"]
        assert ids == expected if expected else END not in ids


def test_logits(alphabet: Path, capsys: Capture, tmp_path: Path) -> None:
    ids = ",".join(map(str, letters("abc")))
    for flags, rows in (((), 1), (("--all",), 3), (("--all", "--step"), 3), (("--chunk", "1"), 1)):
        code, out, err = run_here(
            capsys, "logits", alphabet, "--ids", ids, "-o", tmp_path / "x.npy", *flags
        )
        assert (code, out, err) == (0, "", "")
        found = np.load(tmp_path / "x.npy")
        assert found.dtype == np.float32
        assert found.shape == (rows, 64)
        assert found.argmax(-1).tolist() == letters("bcd")[-rows:]


def test_logits_of_many_requests(alphabet: Path, capsys: Capture, tmp_path: Path) -> None:
    requests = [
        {"ids": letters("ab"), "all": True},
        {"ids": letters("ab"), "step": True, "output": str(tmp_path / "x.npy")},
        {"ids": []},
        {"ids": [64]},
        {"ids": "3"},
        {"id": [1]},
    ]
    lines = [json.dumps(r) for r in requests] + ["{", ""]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    code, out, _ = run_here(capsys, "logits", alphabet, "--jsonl", tmp_path / "in.jsonl")
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert answers[0]["shape"] == [2, 64]
    assert np.argmax(answers[0]["logits"], -1).tolist() == letters("bc")
    assert answers[1] == {"shape": [1, 64], "output": str(tmp_path / "x.npy")}
    assert np.load(tmp_path / "x.npy").argmax(-1).tolist() == letters("c")
    messages = [answer["error"]["message"] for answer in answers[2:]]
    assert [m.partition(":")[0].partition(";")[0] for m in messages] == [
        "no tokens",
        "token id 64 at index 0",
        "ids",
        "unknown key 'id'",
        "the line is not JSON",
    ]
    assert {answer["error"]["kind"] for answer in answers[2:]} == {"ArgumentError"}


def test_bench(alphabet: Path, capsys: Capture) -> None:
    sizes = ("-p", "7", "-n", "5", "-r", "2", "-t", "1")
    code, out, _ = run_here(capsys, "bench", alphabet, *sizes, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["model"] == "tiny-llama"
    assert report["threads"] == 1
    assert report["prefill"]["tokens"] == 7
    assert len(report["prefill"]["tok_s"]) == len(report["decode"]["tok_s"]) == 2
    for key in ("load_s", "first_token_s", "peak_rss_bytes"):
        assert report[key] > 0
    assert run_here(capsys, "bench", alphabet, *sizes)[1].startswith("tiny-llama, ")


def test_verify(tiny: Path, capsys: Capture) -> None:
    code, out, _ = run_here(capsys, "verify", tiny, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["passed"]
    assert report["code"] < 1e-6
    code, out, _ = run_here(capsys, "verify", tiny)
    assert code == 0
    assert out.rstrip().endswith("passed")


def test_help_and_version(capsys: Capture) -> None:
    code, out, _ = run_here(capsys, "--help")
    assert code == 0
    for name in COMMANDS:
        assert f"  {name} " in out
        assert run_here(capsys, name, "--help")[0] == 0
    assert run_here(capsys, "--version")[1].startswith("ggufc ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), ""),
        (("frob",), "unknown command 'frob'; the commands are compile, run"),
        (("run",), "the following arguments are required: BUNDLE|MODEL.gguf"),
        (("run", "x", "-n", "many"), "argument -n/--n-predict: 'many' is not an integer"),
        (("run", "x", "-p", "a", "-f", "b"), "-p and -f exclude each other"),
        (("run", "x", "-p", "a", "--no-template", "--system", "s"), "--system needs the chat"),
        (("run", "x", "-p", "a", "--literal", "--control-tokens", "native"), "--literal excludes"),
        (("logits", "x"), "give either --ids, --prompt or --jsonl"),
        (("logits", "x", "--ids", "1,y", "-o", "z"), "--ids: 'y' is not a token id"),
        (("logits", "x", "--ids", "1"), "give -o OUT.npy"),
        (("bench", "x", "-r", "0"), "repetitions 0: expected at least 1"),
        (("compile", "x", "--stop-after", "fused", "-o", "y"), "--stop-after makes no bundle"),
    ],
)
def test_usage_errors_exit_with_2(
    capsys: Capture, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = run_here(capsys, *arguments)
    assert code == 2
    if arguments:
        assert out == ""
        assert err.startswith("ggufc: ")
        assert message in err
        assert err.count("\n") == 1


def test_a_reader_that_leaves_is_no_error_to_talk_about(alphabet: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "ggufc", "run", str(alphabet), "-p", "a", *PLAIN]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 1
    process.stderr.close()


def test_bytes_that_are_not_text_get_through(alphabet: Path) -> None:
    done = run_program("run", alphabet, "-p", "w", *PLAIN, environment={"LC_ALL": "C"})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"xyz\n", b"")


def test_bench_refuses_what_does_not_fit_before_it_measures(
    alphabet: Path, capsys: Capture
) -> None:
    code, out, err = run_here(capsys, "bench", alphabet, "-p", "1", "-n", "100000")
    assert (code, out) == (1, "")
    assert_one_line(err, "100000 tokens do not fit")
    code, _, err = run_here(capsys, "bench", alphabet, "-p", "0")
    assert code == 2
    assert_one_line(err, "n-prompt 0: expected at least 1")


def test_inspect_sums_up_the_cache(alphabet: Path, capsys: Capture) -> None:
    code, out, _ = run_here(capsys, "inspect", alphabet)
    assert code == 0
    (line,) = (line for line in out.splitlines() if line.startswith("cache"))
    layers = sum(1 for s in Bundle.open(alphabet).manifest.states if s.name.endswith(".k"))
    assert line.endswith(f" a sequence: {layers} x k f32, {layers} x v f32")
