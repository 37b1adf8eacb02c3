"""How much of a token's time is not the graph: sampling, detokenising, and everything else that
Python does."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ggufc.runtime.model import Model
    from ggufc.runtime.settings import Settings

SAMPLED: "Settings" = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "seed": 0}


def python_shares(model: "Model", tokens: int) -> dict[str, float]:
    """The part of the time of a token, from the second on, that is spent outside the graphs, for
    the likeliest token (`greedy`) and for drawing with every filter (`sampled`)."""
    prompt = np.random.default_rng(0).integers(0, model.engine.vocab_size, 8).tolist()
    return {
        "greedy": python_share(model, prompt, tokens, {}),
        "sampled": python_share(model, prompt, tokens, SAMPLED),
    }


def python_share(model: "Model", prompt: list[int], tokens: int, settings: "Settings") -> float:
    """The part of one generation."""
    wanted: Settings = {**settings, "max_tokens": tokens, "ignore_eos": True}
    before = model.engine.native_seconds.get("decode", 0.0)
    seconds = model.generate(prompt, **wanted).timings.decode_s
    steps = model.engine.native_seconds.get("decode", 0.0) - before
    return 1 - steps / seconds if seconds else 0.0
