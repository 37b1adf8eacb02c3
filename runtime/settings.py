"""The settings of a generation as keyword arguments, and the options that they become."""

from collections.abc import Iterable
from typing import TypedDict

from ggufc.runtime.arguments import check_iterable, check_names
from ggufc.runtime.generate import DEFAULT_MAX_TOKENS, GenerationOptions
from ggufc.runtime.sampling import SamplingOptions


class Settings(TypedDict, total=False):
    """How to generate; see `GenerationOptions` and `SamplingOptions` for meaning and defaults."""

    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int | None
    stop: str | Iterable[str]
    ignore_eos: bool


def options_of(settings: Settings) -> GenerationOptions:
    """Checked options. Raises ArgumentError."""
    check_names(settings, Settings)
    stop = settings.get("stop", ())
    if not isinstance(stop, str):
        check_iterable("stop", stop, "a text or a list of texts")
    return GenerationOptions(
        max_tokens=settings.get("max_tokens", DEFAULT_MAX_TOKENS),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        ignore_eos=settings.get("ignore_eos", False),
        sampling=SamplingOptions(
            temperature=settings.get("temperature", 0.0),
            top_k=settings.get("top_k", 0),
            top_p=settings.get("top_p", 1.0),
            min_p=settings.get("min_p", 0.0),
            seed=settings.get("seed"),
        ),
    )
