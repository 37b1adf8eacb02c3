"""Facts of model families that GGUF files do not carry, as tables.

Which Unigram vocabularies separate words at any white space, as the families' tokenizer files do.
Which added tokens take the white space beside them: the `lstrip` and `rstrip` flags of the added
tokens in the families' own tokenizer files. A token without a row keeps the white space.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StripRule:
    """Added tokens of one family that take white space with them.

    A vocabulary belongs to the family when all the conditions given hold: its `kind`, its `pre`
    name, its architecture, or part of its model's name. `only` names the tokens meant; without it
    all added tokens are, but for those in `but`.
    """

    family: str
    sides: str
    kind: str = ""
    pre: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    name_parts: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    def matches(self, kind: str, pre: str | None, architecture: str, name: str) -> bool:
        """Whether a vocabulary with these facts is of this family."""
        lowered = name.lower()
        return (
            self.kind in ("", kind)
            and (not self.pre or pre in self.pre)
            and (not self.architectures or architecture in self.architectures)
            and (not self.name_parts or any(part in lowered for part in self.name_parts))
        )

    def covers(self, text: str) -> bool:
        """Whether the rule means the added token spelled like this."""
        return text in self.only if self.only else text not in self.but


STRIP_RULES: tuple[StripRule, ...] = (
    StripRule(
        "Phi-3 and Phi-3.5 (mini, medium)",
        "r",
        kind="spm",
        architectures=("phi3",),
        but=("<unk>", "<s>", "<|endoftext|>"),
    ),
    StripRule("Phi-4", "lr", kind="bpe", pre=("dbrx",), architectures=("phi3",)),
    StripRule(
        "RoBERTa and kin",
        "l",
        pre=("jina-v1-en", "jina-v2-code", "jina-v2-de", "jina-v2-es", "roberta-bpe"),
        only=("<mask>",),
    ),
    StripRule(
        "XLM-RoBERTa and kin",
        "l",
        kind="unigram",
        architectures=("bert", "nomic-bert-moe", "jina-bert-v3", "xlm-roberta"),
        only=("<mask>",),
    ),
    StripRule("ModernBERT", "l", pre=("modern-bert",), only=("[MASK]",)),
)


WHITESPACE = "whitespace"
WHITESPACE_ARCHITECTURES = (
    "bert",
    "nomic-bert-moe",
    "jina-bert-v3",
    "xlm-roberta",
    "t5",
    "t5encoder",
)


def unigram_split(architecture: str) -> str | None:
    """The pre-tokenizer of a Unigram vocabulary: `whitespace`, or None for spaces only."""
    return WHITESPACE if architecture in WHITESPACE_ARCHITECTURES else None


def strip_sides(
    kind: str, pre: str | None, architecture: str, name: str, added: dict[int, str]
) -> dict[int, str]:
    """The sides on which each added token takes white space, for those that do.

    `added`: ids of control and user-defined tokens and their texts.
    """
    for rule in STRIP_RULES:
        if rule.matches(kind, pre, architecture, name):
            return {token: rule.sides for token, text in added.items() if rule.covers(text)}
    return {}
