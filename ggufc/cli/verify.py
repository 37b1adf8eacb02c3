"""`ggufc verify`: a bundle's files against their hashes, its code against the interpreter."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ggufc.cli.common import add_policy_arguments, read_prompt, tell_dropped
from ggufc.cli.numbers import integer

if TYPE_CHECKING:
    from ggufc.verification import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", type=Path, metavar="BUNDLE")
    parser.add_argument("-t", "--threads", type=integer, help="threads of the compiled code")
    parser.add_argument("-p", "--prompt", help="try the tokens of this text (default: a sentence)")
    add_policy_arguments(parser, "native")
    parser.add_argument("--isa", help="instruction set (default: the best that runs here)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(arguments: argparse.Namespace) -> int:
    """Verify, and exit with 1 if the code does not compute what the program means."""
    from ggufc.cli.common import bundle_path
    from ggufc.verification import verify_bundle

    report = verify_bundle(
        bundle_path(arguments.model),
        threads=arguments.threads,
        isa=arguments.isa,
        text=None if arguments.prompt is None else read_prompt(arguments.prompt, None),
        control_tokens=arguments.control_tokens or "native",
        strict=arguments.strict,
    )
    tell_dropped(report.dropped_bytes, strict=False)
    print(json.dumps(as_json(report)) if arguments.json else as_text(report))
    return 0 if report.passed else 1


def as_json(report: "Report") -> dict[str, object]:
    """The report as a JSON object."""
    summary = {"code": report.code, "allowed": report.allowed, "passed": report.passed}
    return {**dataclasses.asdict(report), **summary}


def as_text(report: "Report") -> str:
    """The report for people."""
    lines = [f"files    {report.files} files of {report.bytes} bytes have their hashes"]
    for row in report.tokens:
        lines.append(
            f"{row.graph:<8} token {row.position}: divergence from the exact program: "
            f"code {row.code:.2e}, interpreter {row.interpreter:.2e}"
        )
    lines.append(f"mean     code {report.code:.2e}, allowed {report.allowed:.2e}")
    lines.append(f"{report.isa}: {'passed' if report.passed else 'FAILED'}")
    return "\n".join(lines)
