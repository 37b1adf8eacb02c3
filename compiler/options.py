"""What can be chosen about a compile, checked as soon as it is chosen."""

from dataclasses import dataclass
from pathlib import Path

from ggufc.compiler.errors import OptionError, quoted, shown

KV_TYPES = ("bf16", "f16", "f32")
MAX_TOKENS = 512
MAX_BATCH = 256
STAGES = ("graph", "fused", "planned", "llvm", "llvm-opt", "asm")
NATIVE, PORTABLE = "native", "portable"


@dataclass(frozen=True)
class CompileOptions:
    """The options that a bundle depends on. Raises OptionError for an illegal value.

    `target` is `native` (the best instruction set of this machine), `portable` (all of them) or
    names with commas between. `context` None is the model's own. `max_batch` is the number of
    sequences that the KV cache has rows for, which is also the largest decode batch; `max_tokens`
    that of one prefill call. `chat_template` is a file that replaces the model's own template.
    `keep_ir` puts the text of every stage into the bundle.
    """

    target: str = NATIVE
    context: int | None = None
    max_batch: int = 8
    max_tokens: int = MAX_TOKENS
    kv_type: str = "bf16"
    chat_template: Path | None = None
    keep_ir: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.kv_type, str) or self.kv_type not in KV_TYPES:
            raise OptionError(
                f"kv type {quoted(str(self.kv_type))} is not supported; "
                f"supported are {', '.join(KV_TYPES)}"
            )
        check_range("context size", self.context if self.context is not None else 1, 1, 1 << 30)
        check_range("max batch", self.max_batch, 1, MAX_BATCH)
        check_range("tokens of a prefill call", self.max_tokens, 1, 1 << 16)
        check_kind("target", self.target, str, "native, portable, or names of instruction sets")
        if not self.target.strip(", "):
            raise OptionError("target is empty; use native, portable, or names of instruction sets")
        check_kind("keep_ir", self.keep_ir, bool, "True or False")
        if self.chat_template is not None:
            check_kind("chat_template", self.chat_template, Path, "a pathlib.Path")


def check_kind(what: str, value: object, kind: type, expected: str) -> None:
    """Raise OptionError unless `value` is of the type."""
    if not isinstance(value, kind):
        raise OptionError(f"{what} {shown(repr(value))}: expected {expected}")


def check_range(what: str, value: object, low: int, high: int) -> None:
    """Raise CompileError unless `value` is an integer in the interval."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise OptionError(f"{what} {value!r}: allowed are {low} to {high}")
