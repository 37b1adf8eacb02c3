r"""The table of pre-tokenizers: how text is split before byte-level merging.

One row for each name that `tokenizer.ggml.pre` may hold; a row serves several names when the models
behind them split alike. The patterns are those of the models' own tokenizers (where a common
runtime simplifies them, the original is used: `\p{M}` in the o200k patterns, `(?i:...)` in the
contractions). Steps apply one after another to every piece that the previous step left; what a
pattern matches becomes a piece, and so does the text between two matches.

Flags: `ignore_merges` takes a piece that is a token as that token, whatever the merges say;
`add_bos` is what a file without the key means; `nfc` says that the model's tokenizer normalises;
`add_sep` closes with the separator; `clean_up` tidies spaces before punctuation when decoding.
"""

from __future__ import annotations

from dataclasses import dataclass

from ggufc.tokenizer.errors import SpecError

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_PUNCTUATED = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"

_LLAMA3 = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_PUNCTUATED}|{_SPACES}"
_QWEN2 = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_PUNCTUATED}|{_SPACES}"
_QWEN35 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def _cased(upper: str, lower: str, suffix: str) -> str:
    lead = r"[^\r\n\p{L}\p{N}]?"
    return rf"{lead}{upper}*{lower}+{suffix}|{lead}{upper}+{lower}*{suffix}"


_CASED = _cased(f"[{_UPPER}]", f"[{_LOWER}]", "")
_CASED_CONTRACTED = _cased(f"[{_UPPER}]", f"[{_LOWER}]", f"{_CONTRACTIONS}?")
_SLASHED = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_O200K = rf"{_CASED_CONTRACTED}|\p{{N}}{{1,3}}|{_SLASHED}|{_SPACES}"
_KIMI = (
    r"\p{Han}+|"
    + _cased(rf"(?:(?!\p{{Han}})[{_UPPER}])", rf"(?:(?!\p{{Han}})[{_LOWER}])", f"{_CONTRACTIONS}?")
    + rf"|\p{{N}}{{1,3}}|{_PUNCTUATED}|{_SPACES}"
)
_CASCADE = "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4))

_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_DEEPSEEK_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_DEEPSEEK_PUNCTUATED = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
_DEEPSEEK_WORDS = r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
_DEEPSEEK_TAIL = rf"{_DEEPSEEK_PUNCTUATED}|{_DEEPSEEK_WORDS}| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
_DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293"
    "\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c"
    "\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5"
    "\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59"
    "\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
    "\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107"
    "\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"
    "\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
    "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f"
    "\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_LINES = r"[^\n]+|\n+"
_ASIAN = (
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f"
    "\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f"
    "\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)

# Steps that no pattern does in linear time: runs of digits cut into threes from the right. The
# last one leaves a run alone where a letter follows it.
NUMBERS_FROM_RIGHT = "numbers from right"
DIGITS_FROM_RIGHT = "digits from right"
WHOLE_DIGITS_FROM_RIGHT = "whole digits from right"

# The same splits as a row's steps, in one pattern (a test compares them): several times faster.
_FUSED_DIGITS_GPT2 = (
    r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
)
_ODD_CJK = r"[[\u3040-\u30ff]--[\p{L}\p{P}\p{S}]]"
_CJK_WORD = r"[[\p{L}\p{M}]&&[\u4e00-\u9fa5\u3040-\u30ff]]"
_FUSED_DEEPSEEK = (
    rf"\p{{N}}{{1,3}}|{_ODD_CJK}?{_CJK_WORD}+|[[\p{{P}}\p{{S}}]&&[\u3040-\u30ff]]+"
    rf"|(?:{_ODD_CJK}(?!{_CJK_WORD}))+|{_DEEPSEEK_PUNCTUATED}"
    r"|[^\r\n\p{L}\p{P}\p{S}\p{N}\u3040-\u30ff]?[[\p{L}\p{M}]--[\u4e00-\u9fa5\u3040-\u30ff]]+"
    r"| ?[[\p{P}\p{S}]--[\u3040-\u30ff]]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?![^\s\p{N}\u4e00-\u9fa5\u3040-\u30ff])|\s+"
)


@dataclass(frozen=True)
class PreTokenizer:
    """One row: the names it serves, its split steps and the flags of its family."""

    names: tuple[str, ...]
    steps: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    add_sep: bool = False
    nfc: bool = False
    clean_up: bool = False
    fused: str = ""

    @property
    def name(self) -> str:
        """The row's first name, which stands for the others in bundles."""
        return self.names[0]


def _row(names: str, *steps: str, fused: str = "", **flags: bool) -> PreTokenizer:
    return PreTokenizer(tuple(names.split()), steps, fused=fused, **flags)


_DIGITS = r"\p{N}"

TABLE: tuple[PreTokenizer, ...] = (
    _row(
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        _LLAMA3,
        ignore_merges=True,
        add_bos=True,
        clean_up=True,
    ),
    _row("dbrx smaug-bpe", _LLAMA3, clean_up=True),
    _row("chatglm-bpe", _LLAMA3, clean_up=True),
    _row("glm4 glm5", _LLAMA3, ignore_merges=True, clean_up=True),
    _row(
        "jais-2",
        rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_PUNCTUATED}|\s*[\r\n]+|{_CASCADE}"
        r"|\s{1,2}(?!\S)|\s",
        clean_up=True,
    ),
    _row(
        "minicpm5", r"\p{N}{1,3}", _LLAMA3.replace("{1,3}", "+"), ignore_merges=True, clean_up=True
    ),
    _row("qwen2 deepseek-r1-qwen kormo f2llmv2", _QWEN2, nfc=True),
    _row("megrez", _QWEN2, nfc=True, clean_up=True),
    _row("qwen35", _QWEN35, nfc=True),
    _row("stablelm2", _QWEN2, nfc=True, clean_up=True),
    _row("hunyuan solar-open grok-2", _QWEN2),
    _row("laguna", _LINES, _QWEN2),
    _row("ufakzeka", rf"{_WORDS}|\p{{N}}|{_PUNCTUATED}|{_SPACES}"),
    _row(
        "seed-coder",
        rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",
    ),
    _row(
        "bailingmoe bailingmoe2 llada-moe",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+",
    ),
    _row(
        "exaone-moe",
        rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
        clean_up=True,
    ),
    _row(
        "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
        r"\p{N}{1,3}",
        _CJK,
        _DEEPSEEK_TAIL,
        fused=_FUSED_DEEPSEEK,
    ),
    _row(
        "spark2_5",
        r"\p{N}{1,3}",
        _CJK,
        rf"{_DEEPSEEK_PUNCTUATED}|{_DEEPSEEK_WORDS}| ?[\p{{P}}\p{{S}}]+|[\r\n]|\s+(?!\S)|\s+",
        _DIGITS,
    ),
    _row(
        "deepseek-llm",
        r"[\r\n]",
        rf"\s?[{_DEEPSEEK_LETTERS}]+",
        r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+\Z",
        _DEEPSEEK_CJK,
        r"\p{N}",
    ),
    _row("deepseek-coder", r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_CJK, _DIGITS),
    _row(
        "youtu",
        "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        rf"{_CASED_CONTRACTED}|\p{{N}}|{_SLASHED}|{_SPACES}",
        ignore_merges=True,
    ),
    _row("afmoe", NUMBERS_FROM_RIGHT, _ASIAN, _DEEPSEEK_TAIL),
    _row(
        "falcon",
        r"[\p{P}$+<=>^~|`]+",
        _GPT2,
        "[0-9][0-9][0-9]",
        clean_up=True,
    ),
    _row(
        "starcoder refact codeshell minerva-7b mellum2",
        _DIGITS,
        _GPT2,
        fused=_FUSED_DIGITS_GPT2,
        clean_up=True,
    ),
    _row("exaone", _DIGITS, _GPT2, fused=_FUSED_DIGITS_GPT2, nfc=True, clean_up=True),
    _row("smollm", _DIGITS, _GPT2, fused=_FUSED_DIGITS_GPT2),
    _row("command-r", _DIGITS, _GPT2, fused=_FUSED_DIGITS_GPT2, nfc=True),
    _row(
        "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum jais",
        _GPT2,
        clean_up=True,
    ),
    _row("exaone4", _GPT2, nfc=True, clean_up=True),
    _row("mpt olmo modern-bert", _GPT2, nfc=True, clean_up=True),
    _row("trillion granite-docling", _GPT2),
    _row("jina-v1-en jina-v2-code roberta-bpe", _GPT2, add_bos=True, add_sep=True, clean_up=True),
    _row("bloom gpt3-finnish", _BLOOM, clean_up=True),
    _row("poro-chat", _BLOOM),
    _row("viking", _BLOOM, _DIGITS),
    _row("tekken", rf"{_CASED}|\p{{N}}|{_SLASHED}|{_SPACES}", ignore_merges=True, add_bos=True),
    _row("gpt-4o llama4 kanana2 talkie minimax-m2", _O200K),
    _row("granite-embed-multi-97m", _O200K, ignore_merges=True),
    _row("tiny_aya cohere2moe", WHOLE_DIGITS_FROM_RIGHT, _O200K, nfc=True),
    _row("kimi-k2", _KIMI),
    _row("superbpe", r"\p{N}+", DIGITS_FROM_RIGHT),
    _row(
        "chameleon",
        r"<sentinel:[0-9]+>",
        r"(?:IMGIMG)(?:[A-I]{1,4})Z",
        r"[\t\n]|    |  ",
        _DIGITS,
        r"[\p{P}!-/:-@\[-`{-~]",
        _GPT2,
        add_bos=True,
    ),
    _row("gemma4 granite-embed-multi-311m", _LINES, add_bos=True, clean_up=True),
    _row("sarvam-moe", _LINES),
    _row("default", r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]", clean_up=True),
)

_BY_NAME = {name: row for row in TABLE for name in row.names}
KNOWN_NAMES: tuple[str, ...] = tuple(sorted(_BY_NAME))


def pretokenizer(name: str | None) -> PreTokenizer:
    """The row of one name.

    Raises SpecError for an unknown or missing name, listing the known ones: a wrong split gives
    plausible, wrong ids.
    """
    row = _BY_NAME.get(name) if name else None
    if row is None:
        found = "is missing" if name is None else f"is {name!r}"
        raise SpecError(
            f"tokenizer.ggml.pre {found}, which says how to split words; "
            f"known: {', '.join(KNOWN_NAMES)}"
        )
    return row
