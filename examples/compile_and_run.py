"""Compile a model and continue a text.

python examples/compile_and_run.py MODEL.gguf "The capital of France is"
"""

import sys
from pathlib import Path

import ggufc


def main(source: str, prompt: str) -> None:
    """Compile `source` beside this program's working folder, once, and continue `prompt`."""
    bundle = Path(Path(source).stem + ".ggufc")
    if not bundle.exists():
        ggufc.compile(source, bundle, target="native")
    with ggufc.load(bundle) as model:
        result = model.generate(prompt, max_tokens=16)
        print(prompt + result.text)
        print(
            f"{result.finish_reason}, {result.timings.decode_tok_s:.0f} tokens/s", file=sys.stderr
        )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
