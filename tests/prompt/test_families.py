"""The page of families: what it says is what the code does, and nothing is left out of it."""

from __future__ import annotations

import pytest

from ggufc.compiler.models import architectures
from ggufc.tokenizer.markers import end_texts
from ggufc.tokenizer.pretokenizers import pretokenizer
from tests.support.prompt_families import FAMILIES, OTHERS
from tests.support.prompt_page import KINDS, page
from tests.support.prompts import fixture
from tests.support.shared import ROOT
from tests.support.template_features import Probe


def test_the_page_is_what_the_code_does() -> None:
    assert (ROOT / "docs" / "templates.md").read_text(encoding="utf-8") == page()


def test_every_architecture_and_every_template_has_its_place() -> None:
    named = {name for family in FAMILIES for name in family.architectures}
    assert named == set(architectures())
    templates = [name for family in FAMILIES for name in family.templates]
    assert sorted([*templates, *OTHERS]) == sorted(fixture("templates"))


def test_every_tokenizer_is_a_known_one() -> None:
    for family in FAMILIES:
        for name in family.tokenizers:
            model, _, pre = name.partition("/")
            assert model in KINDS
            assert bool(pre) == (model == "gpt2")
            assert not pre or pre in pretokenizer(pre).names


CHATML = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nDefault.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking == false %}<think></think>{% endif %}{% endif %}"
)


def test_features_of_a_template_whose_features_are_known() -> None:
    found = Probe("{{ bos_token }}" + CHATML, {"bos_token": "<s>"}).features()
    assert found.default_system == "Default."
    assert (found.opening, found.end) == ("<|im_start|>assistant\n", "<|im_end|>")
    assert found.begin
    assert not found.alternates
    assert found.switches == ("enable_thinking",)
    assert not found.earlier_thoughts
    assert found.capabilities["tools"] == "no"


def test_features_of_a_template_that_does_little() -> None:
    refuses = "{% if messages|length > 1 and messages[1].role == 'user' %}{{ raise_exception('') }}"
    found = Probe(refuses + "{% endif %}{% for m in messages %}{{ m.content }} {% endfor %}", {})
    features = found.features()
    assert features.alternates
    assert features.earlier_thoughts
    assert (features.default_system, features.opening, features.end) == (None, None, None)
    assert features.switches == ()


@pytest.mark.parametrize("text", ["<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<turn|>"])
def test_what_ends_turns_is_known(text: str) -> None:
    """Of the stored templates, most end turns with a token that ends a generation."""
    assert text in end_texts()
    ends = {Probe(t["template"], t["special_tokens"]).end() for t in fixture("templates").values()}
    assert text in ends
