"""`ggufc ir`: the program of a model at any stage."""

import argparse
import sys
from pathlib import Path

from ggufc.cli.streams import output_file

STAGES = ("graph", "fused", "planned", "llvm", "llvm-opt", "asm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("model", type=Path, metavar="BUNDLE|MODEL.gguf")
    add("--stage", choices=STAGES, help="default: graph; planned with --print-after")
    add("--graph", choices=("prefill", "decode", "embed"), help="one of the functions only")
    add("--format", choices=("text", "dot", "json"), default="text", help="default: text")
    add("-o", "--output", type=Path, metavar="FILE", help="write there, not to standard output")
    add("--print-after", metavar="PASS", help="the program after this pass (its last run) instead")
    add("--target", default="native", metavar="ISA", help="instruction set (default: this machine)")


def main(arguments: argparse.Namespace) -> int:
    """Print the program."""
    from ggufc.compiler.explore import View, load_graph, show
    from ggufc.compiler.targets import chosen_isas

    default = "graph" if arguments.print_after is None else "planned"
    view = View(
        stage=arguments.stage or default,
        isa=chosen_isas(arguments.target)[0],
        format=arguments.format,
        graph=arguments.graph,
        after=arguments.print_after,
    )
    text = show(load_graph(arguments.model), view)
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        with output_file(arguments.output) as file:
            file.write(text.encode())
    return 0
