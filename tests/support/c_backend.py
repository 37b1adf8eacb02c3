"""A backend that links an object with a C program and runs it, emulated if need be."""

from __future__ import annotations

import platform
import shutil
import struct
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from ggufc.backends.base import CompiledObject, Integers, Logits
from ggufc.backends.llvm.jit import output_width
from ggufc.backends.llvm.states import state_bytes, state_layouts
from ggufc.ir.interpreter import sequence_lengths
from tests.support.planned_models import PlannedModel

SOURCE = Path(__file__).with_name("run_object.c")
GRAPHS = ("prefill", "decode", "embed")
Command = list[str]


def tools(machine: str) -> tuple[Command, Command] | None:
    """How to compile a C program for a processor family and how to run it here; None: no way."""
    native = machine == platform.machine()
    compiler = shutil.which("cc" if native else f"{machine}-linux-gnu-gcc")
    emulator = shutil.which(f"qemu-{machine}-static")
    if compiler is None or (emulator is None and not native):
        return None
    return [compiler], [] if native or emulator is None else [emulator, "-cpu", "max"]


class CBackend:
    """Collects calls and runs the program again with all of them each time: it keeps no state."""

    def __init__(
        self, model: PlannedModel, compiled: CompiledObject, folder: Path, threads: int = 1
    ) -> None:
        found = tools(compiled.machine)
        assert found is not None
        compiler, self._run_here = found
        self._model, self._threads = model, threads
        self._program = folder / "program"
        (folder / "model.o").write_bytes(compiled.object)
        command = [*compiler, "-std=c11", "-O1", "-Wall", "-Werror", "-static", "-pthread"]
        command += [str(SOURCE), str(folder / "model.o"), "-o", str(self._program)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        self._arena_bytes = compiled.arena_bytes
        self._calls: list[bytes] = []
        self._rows: list[tuple[int, int]] = []

    def prefill(
        self, tokens: Integers, positions: Integers, sequences: Integers, rows: Integers
    ) -> Logits:
        """Run all calls so far and this one."""
        return self._call("prefill", tokens, positions, sequences, rows)

    def decode(self, tokens: Integers, positions: Integers, sequences: Integers) -> Logits:
        """Run all calls so far and this one."""
        rows = np.arange(len(tokens), dtype=np.int32)
        return self._call("decode", tokens, positions, sequences, rows)

    def embed(
        self, tokens: Integers, positions: Integers, sequences: Integers, rows: Integers
    ) -> Logits:
        """Run all calls so far and this one."""
        return self._call("embed", tokens, positions, sequences, rows)

    def _call(self, name: str, *arrays: Integers) -> Logits:
        width = output_width(self._model.planned.functions[name])
        counts = (GRAPHS.index(name), len(arrays[0]), len(arrays[3]), width)
        arrays = (*arrays, sequence_lengths(arrays[1], arrays[2]))
        self._calls.append(b"".join([_ints(*counts), *map(_array, arrays)]))
        self._rows.append((len(arrays[3]), width))
        done = subprocess.run(
            [*self._run_here, str(self._program)],
            input=self._script(),
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr.decode()
        logits = np.frombuffer(done.stdout, np.float32)
        return logits[len(logits) - len(arrays[3]) * width :].reshape(-1, width)

    def _script(self) -> bytes:
        planned, weights = self._model.planned, self._model.packed()
        layouts = state_layouts(planned)
        sizes = [state_bytes(layouts[name], 3, 64) for name in planned.states]
        head = _ints(self._threads, 64, 3, self._arena_bytes, len(weights)) + _array(weights)
        return b"".join([head, _ints(len(sizes), *sizes, len(self._calls)), *self._calls])

    def close(self) -> None:
        """Nothing runs between calls."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def _array(values: np.ndarray) -> bytes:
    content = values.tobytes()
    return content.ljust(-(-len(content) // 8) * 8, b"\0")
