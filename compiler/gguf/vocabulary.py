"""Checks of the vocabulary in the metadata that need no knowledge of tokenizers.

Arrays that go with the tokens must be as long as they are, and ids must be ids of tokens:
whoever reads the vocabulary later indexes one by the other.
"""

from ggufc.compiler.errors import quoted
from ggufc.compiler.gguf.metadata import Metadata

PREFIX = "tokenizer.ggml."
TOKENS = PREFIX + "tokens"
STRINGS = frozenset({"string"})
PER_TOKEN = {
    PREFIX + "scores": frozenset({"f32"}),
    PREFIX + "token_type": frozenset({"i32", "u32"}),
}


def check_vocabulary(metadata: Metadata) -> None:
    """Raise a GGUFError, naming the key, unless the arrays and ids of the vocabulary fit
    together. A file without vocabulary passes."""
    tokens = metadata.get_array(TOKENS, STRINGS, None)
    n_tokens = 0 if tokens is None else len(tokens)
    for key, kinds in PER_TOKEN.items():
        values = metadata.get_array(key, kinds, None)
        if values is not None and len(values) != n_tokens:
            raise metadata.fail(
                f"key {quoted(key)} has {len(values)} values, wanted {n_tokens}, one for each token"
            )
    metadata.get_array(PREFIX + "merges", STRINGS, None)
    for key in metadata:
        if key.startswith(PREFIX) and key.endswith("_token_id"):
            check_id(metadata, key, n_tokens)


def check_id(metadata: Metadata, key: str, n_tokens: int) -> None:
    """Refuse an id that no token has."""
    value = metadata.get_int(key)
    if not 0 <= value < n_tokens:
        raise metadata.fail(f"key {quoted(key)} is {value}, allowed are 0 to {n_tokens - 1}")
