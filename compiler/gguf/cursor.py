"""Reading forward through a mapped file, where nothing is taken before it is known to be there."""

import mmap
from struct import Struct

from ggufc.compiler.errors import GGUFError
from ggufc.compiler.gguf.constants import MAX_STRING

U32 = Struct("<I")
U64 = Struct("<Q")


class Cursor:
    """A position in a mapped file. Every method that takes bytes raises GGUFError, naming `what`
    was wanted and the byte offset, when the file ends before them."""

    def __init__(self, data: mmap.mmap, label: str) -> None:
        """Start at byte 0 of `data`; `label` names the file in messages."""
        self.data = data
        self.size = len(data)
        self.label = label
        self.position = 0

    def fail(self, message: str) -> GGUFError:
        """An error about this file, to be raised."""
        return GGUFError(f"{self.label}: {message}")

    @property
    def left(self) -> int:
        """Bytes from the position to the end of the file."""
        return self.size - self.position

    def skip(self, count: int, what: str) -> int:
        """Move over `count` bytes and return where they begin."""
        start = self.position
        if count > self.left:
            raise self.fail(
                f"the file ends inside {what} at byte {start}:"
                f" {count} bytes needed, {self.left} present"
            )
        self.position = start + count
        return start

    def number(self, form: Struct, what: str) -> int | float:
        """One number stored as `form` says."""
        value: int | float = form.unpack_from(self.data, self.skip(form.size, what))[0]
        return value

    def u32(self, what: str) -> int:
        """An unsigned 32-bit number."""
        return int(self.number(U32, what))

    def u64(self, what: str) -> int:
        """An unsigned 64-bit number."""
        return int(self.number(U64, what))

    def count(self, what: str, least: int, most: int) -> int:
        """A 64-bit count of things that take at least `least` bytes each, and may be `most`."""
        at = self.position
        value = self.u64(what)
        if value > most:
            raise self.fail(f"{what} at byte {at} is {value}, allowed are at most {most}")
        if value * least > self.left:
            raise self.fail(
                f"{what} at byte {at} is {value}, which needs at least {value * least} bytes,"
                f" but {self.left} are left in the file"
            )
        return value

    def bytes(self, what: str, most: int = MAX_STRING) -> bytes:
        """A string's bytes: a 64-bit length, then as many bytes, at most `most`."""
        length = self.count(f"the length of {what}", 1, most)
        start = self.skip(length, what)
        return self.data[start : start + length]

    def string(self, what: str, most: int = MAX_STRING) -> str:
        """A string; bytes that are not UTF-8 become lone surrogates (`surrogateescape`)."""
        return self.bytes(what, most).decode("utf-8", "surrogateescape")
