"""ggufc: an ahead-of-time compiler and runtime for GGUF language models on CPUs.

`compile` makes a bundle of a GGUF file and `load` opens one. Neither the compiler nor the runtime
is imported before it is used, and running a bundle never imports the compiler.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ggufc.runtime.model import Model

__version__ = "0.1.0"

__all__ = ["__version__", "compile", "load"]


def compile(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
    **options: Any,
) -> Path:
    """Compile the GGUF file `source` into the bundle `destination` (default: `NAME.ggufc` in the
    current folder) and return its path. `force` replaces a bundle that is there; `options` are
    the fields of `ggufc.compiler.options.CompileOptions` (`target`, `context`, `max_batch`,
    `kv_type`, ...). Raises ArgumentError, CompileError, OSError."""
    from ggufc.compiler.driver import compile_model, default_destination
    from ggufc.compiler.options import CompileOptions
    from ggufc.runtime.arguments import check_flag, check_names, path_of

    gguf = path_of("source", source)
    path = default_destination(gguf) if destination is None else path_of("destination", destination)
    check_flag("force", force)
    check_names(options, CompileOptions, "option")
    compile_model(gguf, path, CompileOptions(**options), force=force)
    return path


def load(
    bundle: str | os.PathLike[str],
    *,
    threads: int | None = None,
    context: int | None = None,
    sequences: int | None = None,
    isa: str | None = None,
    mapped: bool = False,
) -> Model:
    """Open a bundle for running; see `ggufc.runtime.model.Model.load` for the arguments."""
    from ggufc.runtime.model import Model

    return Model.load(
        bundle,
        threads=threads,
        context=context,
        sequences=sequences,
        isa=isa,
        mapped=mapped,
    )
