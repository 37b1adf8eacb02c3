"""The constants of the GGUF file format, and the limits that this reader sets."""

from dataclasses import dataclass
from struct import Struct

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
ALIGNMENT_KEY = "general.alignment"
SPLIT_NUMBER_KEY = "split.no"
SPLIT_COUNT_KEY = "split.count"
SPLIT_TENSORS_KEY = "split.tensors.count"

# The format's own limits: a length is 64 bits wide, but no file that means well goes beyond these.
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 17
MAX_NAME = 1 << 16
MAX_STRING = 1 << 26
MAX_STRINGS = 1 << 24  # in one array
MAX_NESTED = 1 << 16  # arrays in one array
MAX_DEPTH = 4
MAX_DIMS = 4
MAX_DIM = (1 << 63) - 1
MAX_SPLITS = 1 << 16


@dataclass(frozen=True)
class ValueKind:
    """A kind of metadata value: its number in the file, our name, and for numbers how they are
    stored."""

    id: int
    name: str
    code: str = ""  # of `struct`, and of NumPy after "<"

    @property
    def struct(self) -> Struct:
        """The little-endian reader and writer of one value."""
        return Struct("<" + self.code)

    @property
    def size(self) -> int:
        """Bytes of one value; 0 for strings and arrays."""
        return self.struct.size


KINDS = (
    ValueKind(0, "u8", "B"),
    ValueKind(1, "i8", "b"),
    ValueKind(2, "u16", "H"),
    ValueKind(3, "i16", "h"),
    ValueKind(4, "u32", "I"),
    ValueKind(5, "i32", "i"),
    ValueKind(6, "f32", "f"),
    ValueKind(7, "bool", "B"),
    ValueKind(8, "string"),
    ValueKind(9, "array"),
    ValueKind(10, "u64", "Q"),
    ValueKind(11, "i64", "q"),
    ValueKind(12, "f64", "d"),
)
KIND_BY_ID = {kind.id: kind for kind in KINDS}
KIND_BY_NAME = {kind.name: kind for kind in KINDS}
INTEGER_KINDS = frozenset({"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"})
FLOAT_KINDS = frozenset({"f32", "f64"})

# NumPy's codes differ from those of `struct` in the widths of l and q: name them by size.
NUMPY_TYPES = {
    "u8": "<u1", "i8": "<i1", "u16": "<u2", "i16": "<i2", "u32": "<u4", "i32": "<i4",
    "u64": "<u8", "i64": "<i8", "f32": "<f4", "f64": "<f8", "bool": "<u1",
}  # fmt: skip
