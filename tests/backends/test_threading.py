"""The thread pool of generated code: barriers, sleeping, waking and closing, under stress.

Every stress runs in a process of its own, so that a lost wake-up ends in a timeout and not in a
test that never ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import isa_named
from ggufc.backends.llvm.threading import pool_bytes
from tests.backends import pool_program

PROGRAM = Path(pool_program.__file__)
SECONDS = 60

# threads, calls, rounds of two barriers a call, longest delay as a power of two of pauses
STRESSES = [
    (1, 100, 100, 0),
    (2, 10, 5_000, 0),
    (2, 100, 100, 10),
    (2, 400, 3, 14),
    (3, 20, 100, 6),
    (3, 300, 2, 12),
    (4, 10, 100, 0),
    (5, 10, 50, 8),
    (8, 10, 50, 4),
]


@pytest.mark.parametrize(("threads", "calls", "rounds", "delay"), STRESSES)
def test_barriers_hold_and_nobody_is_left_waiting(
    threads: int, calls: int, rounds: int, delay: int
) -> None:
    command = [sys.executable, str(PROGRAM), *map(str, (threads, calls, rounds, delay))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["failures"] == 0
    assert result["alive"] == 0


@pytest.mark.parametrize("threads", [2, 5])
def test_pools_open_and_close_again_and_again(threads: int) -> None:
    """Closing right away meets workers that have not begun; after a rest, workers that sleep."""
    library = pool_program.load(isa_named(host_isas()[0]))
    for rest in [0.0] * 20 + [0.02] * 5:
        pool = library.pool(threads)
        time.sleep(rest)
        pool.close()
        pool.close()


@pytest.mark.parametrize("isa", host_isas())
def test_every_instruction_set_has_a_working_pool(isa: str) -> None:
    result = pool_program.run(3, 5, 20, 4, isa)
    assert result["failures"] == 0


def test_the_pool_says_how_many_bytes_it_takes() -> None:
    library = pool_program.load(isa_named(host_isas()[0]))
    for threads in (1, 2, 64):
        assert library.function("ggufc_pool_bytes")(threads) == pool_bytes(threads)
    assert library.function("ggufc_pool_bytes")(0) == pool_bytes(1)
    assert pool_bytes(64) % 64 == 0
