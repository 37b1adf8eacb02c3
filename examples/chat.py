"""A conversation of several turns, streamed. What was said stays in the KV cache between turns.

python examples/chat.py MODEL.ggufc "What is the capital of France?" "And of Spain?"
"""

import sys

import ggufc


def main(bundle: str, *questions: str) -> None:
    """Ask one question after another."""
    messages: list[dict[str, str]] = []
    with ggufc.load(bundle) as model:
        for question in questions:
            messages.append({"role": "user", "content": question})
            print(f"> {question}")
            for event in model.chat(messages, stream=True, max_tokens=64):
                print(event.text, end="", flush=True)
                if event.result is not None:
                    answer = event.result
            print(f"\n({answer.usage.cached_tokens} of {answer.usage.prompt_tokens} tokens reused)")
            messages.append({"role": "assistant", "content": answer.text})


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
