"""Follow one model through the stages of the compiler and print what each does to it.

python examples/inspect_ir.py MODEL.gguf
"""

import sys

from ggufc.backends.llvm import compile_module, host_isas
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.memory.arena import arena_bytes
from ggufc.compiler.models import GraphOptions, build
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import to_fused, to_planned
from ggufc.ir import Module, format_op


def op_counts(module: Module) -> str:
    """How many ops each function has."""
    return ", ".join(f"{f.name} {len(f.ops)} ops" for f in module.functions.values())


def main(source: str) -> None:
    """Print the ops of the first steps, and sizes."""
    with GGUFFile.open(source) as gguf:
        graph = build(gguf, GraphOptions())
    print(f"graph:   {op_counts(graph)}")
    fused = to_fused(graph, Compute())
    print(f"fused:   {op_counts(fused)}; decode begins with")
    for op in fused.functions["decode"].ops[:6]:
        print("    " + format_op(op))
    planned = to_planned(fused)
    print(f"planned: every value has its place in an arena of {arena_bytes(planned)} bytes")
    isa = host_isas()[0]
    compiled = compile_module(planned, isa)
    print(f"object:  {len(compiled.object)} bytes for {isa}, {compiled.n_kernels} kernels")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
