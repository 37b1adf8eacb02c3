"""The GGUF file format: reading, and writing for tests and benchmarks."""

from ggufc.compiler.gguf.arrays import GGUFArray, NestedArray, NumberArray, StringArray
from ggufc.compiler.gguf.metadata import Metadata
from ggufc.compiler.gguf.reader import GGUFFile
from ggufc.compiler.gguf.tensors import TensorInfo
from ggufc.compiler.gguf.writer import GGUFWriter

__all__ = [
    "GGUFArray",
    "GGUFFile",
    "GGUFWriter",
    "Metadata",
    "NestedArray",
    "NumberArray",
    "StringArray",
    "TensorInfo",
]
