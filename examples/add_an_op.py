"""Add an op to the language: its meaning, its machine code, and a program that uses it.

python examples/add_an_op.py

The op is softsign(x) = x / (1 + |x|). A new op of the project itself would have its first half in
`ir/ops/` and its second in `backends/llvm/kernels/`; everything else is derived from these two.
"""

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm import compile_module, host_isas
from ggufc.backends.llvm.jit import NativeBackend
from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernels.rows import load_row, segments
from ggufc.backends.reference.backend import ReferenceBackend
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import to_fused, to_planned
from ggufc.ir import F32, GraphBuilder, Module, Pure, Symbol, TensorType, defop, dtype, format_op
from ggufc.ir.opdef import ValueOperand

WIDTH = 64
VOCABULARY = 16


@defop
class Softsign:
    """x / (1 + |x|)."""

    x = ValueOperand("f32")
    traits = (Pure(),)

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        """The same shape."""
        return x

    @staticmethod
    def reference(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """What the op means."""
        return np.asarray(x / (1.0 + np.abs(x)), np.float32)


@kernel("softsign")
def emit_softsign(k: Kernel) -> None:
    """Each thread takes some rows; a row is cut into vectors."""
    f, width = k.f, k.signature.results[0].shape[1]
    assert isinstance(width, int)
    begin, end = k.share(k.n)
    with f.loop(end, begin) as row:
        source, target = k.pointer("x") + row * (4 * width), k.result() + row * (4 * width)
        for start, lanes in segments(width):
            x = load_row(f, source, start, lanes)
            f.store(x / (f.fabs(x) + 1.0), target, 4 * start)


def program() -> Module:
    """Logits that are the op's result over embedded tokens."""
    module = Module("softsign")
    table = np.random.default_rng(0).standard_normal((VOCABULARY, WIDTH)).astype("<f4")
    weight = module.weight("table", TensorType(table.shape, F32), data=table.tobytes())
    for name, symbol in (("prefill", "T"), ("decode", "B")):
        b = GraphBuilder(module, name)
        per_token = TensorType((Symbol(symbol, 8),), dtype("i32"))
        tokens, *_ = (b.input(i, per_token) for i in ("tokens", "positions", "sequences"))
        logits = b.softsign(b.embed(tokens, weight, scale=1.0, name="embd"), name="logits")
        if name == "prefill":
            rows = b.input("rows", TensorType((Symbol("R", 8),), dtype("i32")))
            logits = b.take_rows(logits, rows, name="wanted")
        b.returns(logits)
    return module


def main() -> None:
    """Run the program by the interpreter and as machine code, and compare."""
    graph = program()
    for op in graph.functions["decode"].ops:
        print(format_op(op))
    planned = to_planned(to_fused(graph, Compute()))
    compiled = compile_module(planned, host_isas()[0])
    tokens = np.array([3, 1, 4, 1, 5], np.int32)
    positions, zeros = np.arange(5, dtype=np.int32), np.zeros(5, np.int32)
    with (
        ReferenceBackend(graph, lambda weight: np.empty(0, np.float32)) as reference,
        NativeBackend(compiled, planned, packed_weights(planned), threads=2) as native,
    ):
        expected = reference.prefill(tokens, positions, zeros, positions)
        found = native.prefill(tokens, positions, zeros, positions)
    print(f"{compiled.isa}: largest difference {np.abs(found - expected).max()}")


def packed_weights(module: Module) -> npt.NDArray[np.uint8]:
    """The table in its layout, as weights.bin would hold it."""
    from ggufc.backends.llvm.layouts import pack

    data = module.weights["table"].data
    assert data is not None
    return pack("f32", np.frombuffer(data, np.uint8), VOCABULARY, WIDTH)


if __name__ == "__main__":
    main()
