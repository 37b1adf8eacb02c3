"""Characters that the references' tables do not know: what is newer than the Unicode they follow.

Hugging Face's tokenizers split with Unicode 16, compose and decompose with Unicode 9, and tell
accents, punctuation and control characters apart (for WordPiece) with Unicode 8. Python and the
`regex` package go with the times; a character that has become a letter or a mark meanwhile would
change ids without a word. The tables hold code points in hexadecimal, as ranges.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

# Unassigned in Unicode 16. Such a character is split like a noncharacter.
_AFTER_16 = """
558 58b-58c 5c8-5c9 88f b53-b54 c5c cdc 1acf-1af0 208f 209d-209f 20c1-20c4 2b96 2e60-2e63
a7ce-a7cf a7d2 a7d4 a7dd a7e2 a7f1 ab6c-ab6d fbc3-fbd2 fd90-fd91 fdc8-fdce 107bb-107bf 10940-10959
10ec5-10ec7 10ec9-10eee 10ef0-10efb 11b0a 11b60-11b67 11db0-11ddb 11de0-11de9 11df0-11df1 1246f
12475-1247f 12550-12686 16ea0-16eb8 16ebb-16ed3 16ff2-16ff6 187f8-187ff 18cd6-18cda 18d09-18d20
18d80-18df2 18e00-19191 191a0-191d2 1b123-1b128 1b168 1ccfa-1ccfc 1ceba-1ced0 1ced2-1ced4
1cedd-1cefd 1d127-1d128 1d1eb-1d1ff 1d250-1d281 1d6a6 1db00-1db1c 1df1f-1df24 1df2b-1df81
1df90-1df96 1dfcd-1dfff 1e6c0-1e6de 1e6e0-1e6f5 1e6fe-1e6ff 1f1ae 1f6d8-1f6d9 1f777-1f77a
1f7da-1f7db 1f7f1-1f7ff 1f8d0-1f8d8 1fa54-1fa57 1fa8a-1fa8e 1fac8 1facc-1facd 1fadd 1faea-1faeb
1faef 1faf9-1fafa 1fbfa 2b73a-2b73f 2b81e 2cea2-2cead 323b0-33479 3d000-3fc3f
"""
_NONCHARACTER = 0xFFFF
# A small letter in Unicode 16, a letter without case in 17; and one that still is a small letter.
_RECLASSIFIED, _SMALL_LETTER = "\u0295", "\u0296"

# Combining marks, and characters that others compose to, newer than Unicode 9.
_COMPOSING_AFTER_9 = """
5c8-5c9 7fd 897-89f 8ca-8d3 9fe c3c d3b-d3c eba 1715 1abf-1af0 1df6-1dfa a82c 105c9-105e4
10d24-10d27 10d69-10d6d 10eab-10eac 10ecb-10ecf 10ef0-10efb 10efd-10eff 10f46-10f50 10f82-10f85
11070 1133b 11380-113e2 1145e 11839-1183a 11930-1193e 11943 119e0 11a34 11a47 11a99 11d42
11d44-11d45 11d97 11f41-11f42 1611e-1612f 16d63-16d6a 16ff0-16ff1 1d127-1d128 1d250-1d252
1d25b-1d25c 1d25f 1d280-1d281 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3
1e6e6 1e6ee-1e6ef 1e6f5
"""

# Nonspacing marks newer than Unicode 8, and what was one then.
_ACCENTS_AFTER_8 = """
5c8-5c9 7fd 897-89f 8ca-8e1 9fe afa-aff b53-b55 c04 c3c d00 d3b-d3c d81 eba ece 180f 1885-1886
1abf-1af0 1df6-1dfb a82c a8c5 a8ff a9bd 10d24-10d27 10d69-10d6d 10eab-10eac 10ecb-10ecf
10ef0-10eff 10f46-10f50 10f82-10f85 11070 11073-11074 110c2 111c9 111cf 1123e 11241 1133b
113bb-113c0 113ce 113d0 113d2 113e1-113e2 11438-1143f 11442-11444 11446 1145e 1182f-11837
11839-1183a 1193b-1193c 1193e 11943 119d4-119d7 119da-119db 119e0 11a01-11a0a 11a33-11a38
11a3b-11a3e 11a47 11a51-11a56 11a59-11a5b 11a8a-11a96 11a98-11a99 11b60 11b62-11b64 11b66
11c30-11c36 11c38-11c3d 11c3f 11c92-11ca7 11caa-11cb0 11cb2-11cb3 11cb5-11cb6 11d31-11d36 11d3a
11d3c-11d3d 11d3f-11d45 11d47 11d90-11d91 11d95 11d97 11df0 11ef3-11ef4 11f00-11f01 11f36-11f3a
11f40 11f42 11f5a 13440 13447-13455 1611e-16129 1612d-1612f 16f4f 16fe4 1cf00-1cf2d 1cf30-1cf46
1d127-1d128 1d25b-1d25c 1e000-1e02a 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef
1e6e3 1e6e6 1e6ee-1e6ef 1e6f5 1e944-1e94a
"""
_ACCENTS_OF_8 = "1734 1171e"

# Punctuation newer than Unicode 8, and what was punctuation then.
_PUNCTUATION_AFTER_8 = """
61d 9fd a76 c77 c84 1b4e-1b4f 1b7d-1b7f 2e43-2e4f 2e52-2e5d 2e60-2e63 10d6e 10ead 10ed0
10f55-10f59 10f86-10f89 113d4-113d5 113d7-113d8 1144b-1144f 1145a-1145b 1145d 11660-1166c 116b9
1183b 11944-11946 119e2 11a3f-11a46 11a9a-11a9c 11a9e-11aa2 11b00-11b09 11be1 11c41-11c45
11c70-11c71 11ef7-11ef8 11f43-11f4f 11fff 12ff1-12ff2 16d6d-16d6f 16e97-16e9a 16fe2 1e5ff
1e95e-1e95f
"""
_PUNCTUATION_OF_8 = "166d 111c9"

# Format characters newer than Unicode 8.
_FORMAT_AFTER_8 = "890-891 8e2 110cd 13430-1343f"


def _members(table: str) -> str:
    """A table as the inside of a character class."""
    ends = [entry.split("-") for entry in table.split()]
    return "".join("-".join(chr(int(code, 16)) for code in pair) for pair in ends)


# For patterns of `regex.V1`.
ACCENTS = rf"[[\p{{Mn}}{_members(_ACCENTS_OF_8)}]--[{_members(_ACCENTS_AFTER_8)}]]"
PUNCTUATION = (
    rf"[[!-/:-@\[-`{{-~\p{{P}}{_members(_PUNCTUATION_OF_8)}]--[{_members(_PUNCTUATION_AFTER_8)}]]"
)
CONTROLS = rf"[[\0\uFFFD\p{{Cc}}\p{{Cf}}\p{{Co}}\p{{Cs}}]--[\t\n\r{_members(_FORMAT_AFTER_8)}]]"

_ASTRAL = "\U00010000-\U0010ffff"


def _suspects(table: str) -> re.Pattern[str]:
    """A pattern, much quicker than the whole table, without which a text has none of it."""
    basic = " ".join(entry for entry in table.split() if len(entry.split("-")[0]) <= 4)
    return re.compile(f"[{_members(basic)}{_RECLASSIFIED}{_ASTRAL}]")


_MAYBE_LATER = _suspects(_AFTER_16)
_MAYBE_COMPOSING = _suspects(_COMPOSING_AFTER_9)
_COMPOSING = re.compile(f"([{_members(_COMPOSING_AFTER_9)}]+)")


@cache
def _is_later() -> NDArray[np.bool_]:
    """Whether each code point is newer than Unicode 16."""
    later = np.zeros(0x110000, bool)
    for entry in _AFTER_16.split():
        first, _, last = entry.partition("-")
        later[int(first, 16) : int(last or first, 16) + 1] = True
    return later


def as_in_unicode_16(text: str) -> str:
    """A text of the same length in which every character is of the class that it had then."""
    if not _MAYBE_LATER.search(text):
        return text
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    later = _is_later()[codes]
    if later.any():
        masked = np.where(later, np.uint32(_NONCHARACTER), codes)
        text = masked.tobytes().decode("utf-32-le", "surrogatepass")
    return text.replace(_RECLASSIFIED, _SMALL_LETTER)


def composed_in_unicode_9(text: str) -> list[str]:
    """The text cut so that every second part is of characters that nothing composed with then."""
    return _COMPOSING.split(text) if _MAYBE_COMPOSING.search(text) else [text]
