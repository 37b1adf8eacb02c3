"""Runs the kernel of every op, by one sample each, over no rows on one to three threads.

In a process of its own, which a division by zero would end. Prints a JSON object: the names of the
ops that ran, and of those that wrote something.
"""

from __future__ import annotations

import json
import sys

from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.backends.llvm.signatures import needs_kernel, run_time_dimension
from ggufc.ir import Symbol
from tests.support.native_ops import NativeSample
from tests.support.op_samples import OpSample, all_samples


def has_rows(sample: OpSample) -> bool:
    """Whether the number of rows of a sample's op is known at run time alone."""
    op = next(op for op in sample.module.functions["main"].ops if op.name == sample.op)
    return needs_kernel(op) and isinstance(run_time_dimension(op), Symbol)


def wrote(sample: OpSample, isa: Isa) -> bool:
    """Whether a run over no rows changes a result or a state."""
    native = NativeSample(sample, isa, "prefill", count=0)
    found = False
    for threads in (1, 2, 3):
        native.run(threads)
        found |= native.wrote()
    return found


def main() -> None:
    """Run the first sample of every op that has rows, on the instruction set that is named."""
    isa = isa_named(sys.argv[1])
    chosen = {sample.op: sample for sample in reversed(all_samples()) if has_rows(sample)}
    written = [name for name, sample in chosen.items() if wrote(sample, isa)]
    print(json.dumps({"ran": sorted(chosen), "wrote": written}))


if __name__ == "__main__":
    main()
