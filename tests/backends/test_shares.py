"""Sharing out work: every piece is done once, by whichever thread, on any number of threads.

Every stress runs in a process of its own, so that a thread that waits for ever ends in a timeout.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import isa_named
from tests.backends import no_rows_program, shares_program
from tests.support.shared import ROOT

PROGRAM = Path(shares_program.__file__)
PIECES = sum(count for count, _ in shares_program.OPS)
SECONDS = 60

# threads, calls, longest delay as a power of two of pauses
STRESSES = [(1, 20, 4), (2, 300, 0), (2, 100, 8), (2, 20, 14), (3, 50, 10), (4, 50, 12), (9, 10, 8)]


@pytest.mark.parametrize(("threads", "calls", "delay"), STRESSES)
def test_every_piece_is_done_once(threads: int, calls: int, delay: int) -> None:
    command = [sys.executable, str(PROGRAM), *map(str, (threads, calls, delay))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["failures"] == 0
    assert sum(result["pieces"]) == PIECES * calls


def test_no_op_does_anything_where_there_are_no_rows() -> None:
    """A prefill call may want no rows: what the last layer computes for them is nothing then."""
    program = ("-m", no_rows_program.__name__, host_isas()[0])
    command = [sys.executable, *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {"linear", "attention", "expert_glu", "embed", "take_rows"} <= set(result["ran"])
    assert not result["wrote"]


@pytest.mark.parametrize("isa", host_isas())
def test_every_instruction_set_shares(isa: str) -> None:
    assert shares_program.run(3, 5, 8, isa)["failures"] == 0


def test_one_thread_does_the_work_of_another_that_is_late() -> None:
    """A thread alone in a pool of two, whose worker never comes, does all pieces of every op."""
    library = shares_program.load(isa_named(host_isas()[0]))
    counters, done = np.zeros(PIECES, np.int32), np.zeros((2, 8), np.int64)
    call = np.array([0, counters.ctypes.data, done.ctypes.data], np.int64)
    pool = np.zeros(4096, np.uint8)
    start = -pool.ctypes.data % 64
    address = pool.ctypes.data + start
    library.function("ggufc_pool_init")(address, 2)
    share = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("share"))
    worker = library.function("ggufc_worker")
    late = threading.Timer(0.2, worker, (address, 1))
    late.start()
    share(call.ctypes.data, address)
    library.function("ggufc_pool_close")(address)
    late.join()
    assert counters.tolist() == [1] * PIECES
    assert done[:, 0].tolist() == [PIECES, 0]
