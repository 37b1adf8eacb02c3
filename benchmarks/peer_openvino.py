"""Time OpenVINO GenAI on one file; run by the interpreter of the peer's own environment.

    python peer_openvino.py MODEL.gguf --prompt 512 --generate 128 --threads 2 [--first-token]

It reads GGUF files of a few architectures. Times are those that its pipeline reports: to the first
token, and from token to token, after a warm-up.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import openvino
import openvino_genai
from peer_process import FIRST_PROMPT, arguments, report, since_start

LEAST_VOCABULARY = 32000


def prompt(tokens: int, seed: int) -> Any:
    """Random ids that every vocabulary has; the pipeline remembers prompts that it has seen."""
    rng = random.Random(seed)
    ids = np.array([[rng.randrange(LEAST_VOCABULARY) for _ in range(tokens)]], np.int64)
    return openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))


def generate(pipeline: Any, tokens: int, answer: int, seed: int) -> Any:
    """Metrics of one generation after a prompt of its own."""
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = answer
    config.ignore_eos, config.do_sample, config.apply_chat_template = True, False, False
    return pipeline.generate(prompt(tokens, seed), config).perf_metrics


def main() -> None:
    """Time what the command line asks for."""
    args = arguments()
    options = {"INFERENCE_NUM_THREADS": args.threads}
    try:
        pipeline = openvino_genai.LLMPipeline(args.model, "CPU", **options)
    except (RuntimeError, IndexError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SystemExit(f"OpenVINO GenAI cannot load {args.model}: {reason}") from None
    if args.first_token:
        generate(pipeline, FIRST_PROMPT, 1, 1)
        report(first_token_s=since_start())
        return
    generate(pipeline, args.prompt, 8, 1)
    metrics = generate(pipeline, args.prompt, args.generate + 1, 2)
    report(
        prefill=args.prompt / (metrics.get_ttft().mean / 1e3),
        decode=1e3 / metrics.get_tpot().mean,
        version=openvino_genai.__version__,
    )


if __name__ == "__main__":
    main()
