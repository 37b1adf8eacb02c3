"""Find the texts that are most like a question.

python examples/embed.py MODEL.gguf "How do I log in?" "Passwords and accounts" "Opening hours"
"""

import sys
from pathlib import Path

import ggufc


def main(source: str, question: str, *texts: str) -> None:
    """Compile `source` beside this program's working folder, once, and print the texts, the most
    similar first, each with the cosine of its angle to the question."""
    bundle = Path(Path(source).stem + ".ggufc")
    if not bundle.exists():
        ggufc.compile(source, bundle, target="native")
    with ggufc.load(bundle) as model:
        vectors = model.embed([question, *texts])
    similarities = vectors[1:] @ vectors[0]
    for i in (-similarities).argsort(kind="stable"):
        print(f"{similarities[i]:.3f} {texts[i]}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
