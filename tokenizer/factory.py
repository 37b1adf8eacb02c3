"""From a spec to the tokenizer that serves it."""

from __future__ import annotations

from pathlib import Path

from ggufc.tokenizer.base import Model, Tokenizer
from ggufc.tokenizer.spec import TokenizerSpec


def create_tokenizer(spec: TokenizerSpec) -> Tokenizer:
    """The tokenizer of a vocabulary. Raises SpecError where its splitting rule is not known."""
    return Tokenizer(spec, _model(spec))


def load_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer stored in a directory by `TokenizerSpec.save`."""
    return create_tokenizer(TokenizerSpec.load(directory))


def _model(spec: TokenizerSpec) -> Model:
    if spec.kind == "wordpiece":
        from ggufc.tokenizer.wordpiece import WordPieceModel

        return WordPieceModel(spec)
    if spec.kind == "unigram":
        from ggufc.tokenizer.unigram import UnigramModel

        return UnigramModel(spec)
    from ggufc.tokenizer.bpe import BpeModel, PairEncoder

    encoder = PairEncoder(spec)
    if spec.kind == "bpe":
        from ggufc.tokenizer.pretokenizers import pretokenizer
        from ggufc.tokenizer.splitting import splitter

        return BpeModel(encoder, splitter(pretokenizer(spec.pre)), bytes(spec.missing_bytes))
    from ggufc.tokenizer.spm import SpaceMarkModel

    return SpaceMarkModel(spec, encoder)
