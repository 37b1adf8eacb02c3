"""From `--target` to instruction sets."""

from ggufc.backends.llvm import ISAS, Isa, host_isas
from ggufc.compiler.errors import CompileError, OptionError, quoted
from ggufc.compiler.options import NATIVE, PORTABLE


def chosen_isas(target: str) -> list[Isa]:
    """The instruction sets to compile for, best first: this machine's best for `native`, all for
    `portable`, or those named. Raises OptionError; CompileError where this machine runs none."""
    if target == PORTABLE:
        return list(ISAS.values())
    if target == NATIVE:
        names = set(host_isas()[:1])
    else:
        names = {name.strip() for name in target.split(",") if name.strip()}
    for name in sorted(names - set(ISAS)):
        known = ", ".join([NATIVE, PORTABLE, *ISAS])
        raise OptionError(f"target {quoted(name)} is unknown; known are {known}")
    if not names:
        known = ", ".join(ISAS)
        raise CompileError(f"this machine runs none of {known}; name a target to compile for it")
    return [isa for isa in ISAS.values() if isa.name in names]
