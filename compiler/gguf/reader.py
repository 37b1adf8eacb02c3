"""Reading a GGUF model: metadata and tensors of one file, or of all the parts of a split one."""

import hashlib
import os
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ggufc.compiler.errors import GGUFError, quoted, shown
from ggufc.compiler.gguf.metadata import Metadata
from ggufc.compiler.gguf.part import Part, read_part
from ggufc.compiler.gguf.split import all_parts
from ggufc.compiler.gguf.tensors import TensorInfo

HASH_CHUNK = 1 << 22


class GGUFFile:
    """A GGUF model that is open for reading, mapped and never copied.

    Everything that a header can get wrong has been checked when `open` returns. `metadata` is that
    of the first part; `tensors` holds those of all parts by name, in the order of the file."""

    def __init__(self, parts: list[Part]) -> None:
        """Use `open`. `parts` are all parts of one model, in order."""
        self.paths = [part.path for part in parts]
        self.version = parts[0].version
        self.alignment = parts[0].alignment
        self.metadata: Metadata = parts[0].metadata
        self.tensors: dict[str, TensorInfo] = {
            info.name: info for part in parts for info in part.tensors
        }
        self.maps = {part.path: np.frombuffer(part.data, np.uint8) for part in parts}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "GGUFFile":
        """Open a model by its file, or by any one of its parts; GGUFError says in one line what is
        wrong."""
        return cls(all_parts(read_part(Path(path))))

    @property
    def path(self) -> Path:
        """The file, or the first part."""
        return self.paths[0]

    @property
    def label(self) -> str:
        """The path as messages show it."""
        return shown(str(self.path), 400)

    @property
    def size(self) -> int:
        """Bytes of all parts together."""
        return sum(len(data) for data in self.maps.values())

    def tensor_bytes(self, name: str) -> npt.NDArray[np.uint8]:
        """The bytes of tensor `name` as they are in the file: a read-only view of the map."""
        info = self.tensors.get(name)
        if info is None:
            raise GGUFError(f"{self.label}: there is no tensor {quoted(name)}")
        return self.maps[info.path][info.offset : info.offset + info.nbytes]

    def sha256(self) -> str:
        """The SHA-256 of the file, or of all parts one after the other, in hexadecimal."""
        digest = hashlib.sha256()
        for path in self.paths:
            data = self.maps[path]
            for start in range(0, len(data), HASH_CHUNK):
                digest.update(data[start : start + HASH_CHUNK].data)
        return digest.hexdigest()

    def close(self) -> None:
        """Let go of the maps; views that were handed out stay valid."""
        self.maps = {}

    def __enter__(self) -> "GGUFFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
