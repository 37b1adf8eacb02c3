"""Continue several texts together, save a session, and go on from it.

python examples/batch.py MODEL.ggufc "The sky is" "Grass is"
"""

import sys
import tempfile
from pathlib import Path

import ggufc


def main(bundle: str, *prompts: str) -> None:
    """Continue the prompts, then the first one once more from a file."""
    with ggufc.load(bundle) as model:
        for prompt, result in zip(
            prompts, model.generate_batch(prompts, max_tokens=16), strict=True
        ):
            print(f"{prompt!r} -> {result.text!r}")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "first.session"
            with model.session() as session:
                first = model.generate(prompts[0], session=session, max_tokens=8)
                session.save(path)
            with model.restore(path) as session:
                ids = first.prompt_ids + first.ids
                rest = model.generate(ids, session=session, max_tokens=8)
        print(f"{rest.usage.cached_tokens} of {rest.usage.prompt_tokens} tokens came from the file")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
