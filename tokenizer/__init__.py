"""Text to ids and back: tokenizers that know nothing of the file a vocabulary came from."""

from ggufc.tokenizer.base import Encoding, Tokenizer
from ggufc.tokenizer.errors import (
    ControlTokenInTextError,
    DroppedBytesError,
    SpecError,
    TextError,
    TokenizerError,
)
from ggufc.tokenizer.factory import create_tokenizer, load_tokenizer
from ggufc.tokenizer.provenance import Policy
from ggufc.tokenizer.spec import TokenizerSpec, TokenType
from ggufc.tokenizer.streaming import StreamDecoder

__all__ = [
    "ControlTokenInTextError",
    "DroppedBytesError",
    "Encoding",
    "Policy",
    "SpecError",
    "StreamDecoder",
    "TextError",
    "TokenType",
    "Tokenizer",
    "TokenizerError",
    "TokenizerSpec",
    "create_tokenizer",
    "load_tokenizer",
]
