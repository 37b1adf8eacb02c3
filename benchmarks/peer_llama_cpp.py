"""Time llama.cpp's prefill and decode on one file; run by the interpreter of the peer's own
environment.

    python peer_llama_cpp.py MODEL.gguf --prompt 512 --generate 128 --threads 2

Prints one JSON object: tokens per second of each. The calls are those of llama.cpp's own
benchmark: one batch of random tokens for prefill, one token a call for decode, no sampling, a
warm-up before each.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import Any

import llama_cpp as ll


def open_context(path: str, threads: int, n_ctx: int) -> tuple[Any, Any]:
    """Load the model and make a context with the peer's default settings."""
    ll.llama_backend_init()
    ll.llama_log_set(_QUIET, None)
    model = ll.llama_model_load_from_file(path.encode(), ll.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama.cpp cannot load {path}")
    params = ll.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, 512, 512
    params.n_threads = params.n_threads_batch = threads
    return model, ll.llama_init_from_model(model, params)


def _quiet(level: int, text: bytes, data: Any) -> None:
    del level, text, data


_QUIET = ll.llama_log_callback(_quiet)


def decode(context: Any, tokens: list[int]) -> None:
    """Run one batch to its end."""
    array = (ll.llama_token * len(tokens))(*tokens)
    if ll.llama_decode(context, ll.llama_batch_get_one(array, len(tokens))):
        raise SystemExit(f"llama.cpp failed on a batch of {len(tokens)} tokens")
    ll.llama_synchronize(context)


def timed(context: Any, batches: list[list[int]]) -> float:
    """Seconds for the batches, from an empty cache."""
    ll.llama_memory_clear(ll.llama_get_memory(context), True)
    start = time.perf_counter()
    for batch in batches:
        decode(context, batch)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    n_ctx = max(args.prompt, args.generate) + 64
    model, context = open_context(args.model, args.threads, n_ctx)
    vocab_size = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(model))
    rng = random.Random(1)
    prompt = [[rng.randrange(vocab_size) for _ in range(args.prompt)]]
    steps = [[rng.randrange(vocab_size)] for _ in range(args.generate)]
    timed(context, prompt)
    prefill = [args.prompt / timed(context, prompt) for _ in range(args.repeat)]
    timed(context, steps[:8])
    generate = [args.generate / timed(context, steps) for _ in range(args.repeat)]
    info = ll.llama_print_system_info().decode()
    print(json.dumps({"prefill_tok_s": prefill, "decode_tok_s": generate, "system": info}))


if __name__ == "__main__":
    main()
