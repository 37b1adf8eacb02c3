"""Programs that run a bundle: what they import, what they need of their surroundings, how they
end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ggufc.runtime.prompt.chat import CHATML_NOTICE
from tests.support.cli import obey_signals, run_program
from tests.support.tiny_gguf import tiny_model

RUNS = """
import sys
from ggufc.cli import main
code = main(["run", sys.argv[1], *sys.argv[2:], "-p", "a", "-n", "2"])
rooms = ("ggufc.compiler", "ggufc.ir", "ggufc.backends")
loaded = [m for m in sys.modules if m.startswith(rooms)]
assert code == 0 and not loaded, (code, loaded)
heavy = [m for m in ("rich", "jinja2", "hypothesis") if m in sys.modules]
assert "--no-template" not in sys.argv or not heavy, heavy
"""


def program(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python program in a new process, where warnings are errors."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("flags", [("--no-template",), ()])
def test_running_loads_nothing_of_the_compiler(alphabet: Path, flags: tuple[str, ...]) -> None:
    """The vocabulary lacks the signs of ChatML's markers, which is told as well."""
    done = program(RUNS, str(alphabet), *flags)
    notices = [] if flags else [CHATML_NOTICE, "warning: dropped 0x3c at byte 0"]
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines)) == (0, len(notices)), done.stderr
    for line, notice in zip(lines, notices, strict=True):
        assert line.startswith(f"ggufc: {notice}")


def test_importing_the_package_loads_nothing() -> None:
    done = program(
        "import sys, ggufc; ggufc.load, ggufc.compile\n"
        "assert not [m for m in sys.modules if m.startswith('ggufc.')], sys.modules\n"
        "assert 'numpy' not in sys.modules"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_running_needs_no_home_and_nothing_writable(alphabet: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ggufc", "run", str(alphabet), "--no-template", "-p", "x"],
        cwd="/",
        env={"PATH": os.environ["PATH"], "TMPDIR": "/nonexistent", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "yz\n", "")


def test_the_interpreter_ends_without_closing_the_model(alphabet: Path) -> None:
    done = program(
        "import sys, ggufc\n"
        "model = ggufc.load(sys.argv[1], threads=4)\n"
        "print(model.generate('x').text)",
        str(alphabet),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "yz\n", "")


def test_forkserver_and_spawn(alphabet: Path, tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(
        "import multiprocessing, sys, ggufc\n"
        "def work(path):\n"
        "    with ggufc.load(path, threads=2) as model:\n"
        "        return model.generate('x').text\n"
        "if __name__ == '__main__':\n"
        "    for method in ('spawn', 'forkserver'):\n"
        "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
        "            print(pool.map(work, [sys.argv[1]] * 2))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script), str(alphabet)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "['yz', 'yz']\n" * 2, done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_run_quietly(tiny: Path, number: int, status: int) -> None:
    command = [sys.executable, "-m", "ggufc", "logits", str(tiny), "--jsonl", "-"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=obey_signals,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b'{"ids": [3]}\n')
        process.stdin.flush()
        assert process.stdout.readline().startswith(b'{"shape": [1, 64]')
        process.send_signal(number)
        assert process.wait(60) == status
        assert process.stderr.read() == b""


def test_python_m(alphabet: Path) -> None:
    done = run_program("run", alphabet, "--no-template", "-p", "y")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"z\n", b"")


def test_memory_grows_only_as_the_cache_fills(tmp_path: Path) -> None:
    """A context of a million positions for 8 sequences would take gigabytes."""
    from tests.support.bundles import bundle_of
    from tests.support.tiny_gguf import tiny_model

    bundle = bundle_of(tiny_model(context=1 << 20), tmp_path)
    done = program(
        "import sys, ggufc\n"
        "from ggufc.cli.bench import peak_memory\n"
        "with ggufc.load(sys.argv[1]) as model:\n"
        "    model.generate('the', max_tokens=8)\n"
        "print(peak_memory() // 10**6)",
        str(bundle),
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 250


@pytest.mark.parametrize("name", ["ümläut", "with space", "new\nline", b"\xff\xfe"])
def test_any_path_in_any_locale(name: str | bytes, tmp_path: Path) -> None:
    """Names of files are bytes to the system, and need not be text."""
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    source = tiny_model().write(folder / (folder.name + ".gguf"))
    bundle = folder / (folder.name + ".ggufc")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for command in (
        ("compile", source, "-o", bundle),
        ("run", bundle, "--no-template", "-p", "the", "-n", "1"),
        ("inspect", bundle),
    ):
        done = run_program(*command, environment=plain)
        assert done.returncode == 0, done.stderr
