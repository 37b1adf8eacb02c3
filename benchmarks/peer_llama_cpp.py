"""Time llama.cpp on one file; run by the interpreter of the peer's own environment.

    python peer_llama_cpp.py MODEL.gguf --prompt 512 --generate 128 --threads 2 [--first-token]

The calls are those of llama.cpp's own benchmark: one batch of random tokens for prefill, one token
a call for decode, no sampling, a warm-up before each.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import llama_cpp as ll
from peer_process import FIRST_PROMPT, arguments, report, since_start


def open_context(path: str, threads: int, n_ctx: int) -> tuple[Any, Any]:
    """Load the model and make a context with the peer's default settings. Where memory is to lie on
    huge pages, weights are read instead of mapped."""
    ll.llama_backend_init()
    ll.llama_log_set(_QUIET, None)
    loading = ll.llama_model_default_params()
    # Weights that are mapped never lie on huge pages.
    loading.use_mmap = "hugetlb=1" not in os.environ.get("GLIBC_TUNABLES", "")
    model = ll.llama_model_load_from_file(path.encode(), loading)
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
    """Time what the command line asks for."""
    args = arguments()
    n_ctx = args.context if args.first_token else max(args.prompt, args.generate) + 64
    model, context = open_context(args.model, args.threads, n_ctx)
    vocab_size = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(model))
    rng = random.Random(1)
    if args.first_token:
        decode(context, [rng.randrange(vocab_size) for _ in range(FIRST_PROMPT)])
        logits = ll.llama_get_logits_ith(context, -1)
        max(range(vocab_size), key=lambda token: logits[token])
        report(first_token_s=since_start())
        return
    prompt = [[rng.randrange(vocab_size) for _ in range(args.prompt)]]
    steps = [[rng.randrange(vocab_size)] for _ in range(args.generate)]
    timed(context, prompt)
    prefill = args.prompt / timed(context, prompt)
    timed(context, steps[:8])
    speed = args.generate / timed(context, steps)
    info = ll.llama_print_system_info().decode()
    report(prefill=prefill, decode=speed, system=info, version=ll.__version__)


if __name__ == "__main__":
    main()
