"""Numbers on the command line: decimal ones in ASCII, as every other program reads them. (Python's
own `int` and `float` take `1_0`, digits of any script and white space, too.)"""

import argparse
import re

from ggufc.runtime.errors import ArgumentError

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")


def integer(text: str) -> int:
    """The type of arguments that are integers. Raises ArgumentTypeError."""
    if not _INTEGER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r:.60} is not an integer such as 8 or -1")
    return int(text)


def number(text: str) -> float:
    """The type of arguments that are real numbers. Raises ArgumentTypeError."""
    if not _NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r:.60} is not a number such as 0.8")
    return float(text)


def token_ids(text: str) -> list[int]:
    """Token ids with commas or white space between, perhaps in brackets. Raises ArgumentError."""
    words = text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()
    for word in words:
        if not _INTEGER.fullmatch(word):
            raise ArgumentError(f"{word!r:.60} is not a token id; numbers such as 1,2,3 are wanted")
    return [int(word) for word in words]
