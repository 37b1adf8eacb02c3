"""From the metadata of a model to the prompt part of its bundle: tokenizer and chat templates."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ggufc.compiler.errors import CompileError, quoted
from ggufc.compiler.gguf import Metadata
from ggufc.compiler.tokenizer_import import import_tokenizer
from ggufc.runtime.prompt.canaries import OK, USER, check_template
from ggufc.runtime.prompt.chat import DEFAULT, SUFFIX, ChatTemplate
from ggufc.runtime.prompt.encoding import special_tokens
from ggufc.tokenizer.base import Tokenizer
from ggufc.tokenizer.factory import create_tokenizer
from ggufc.tokenizer.spec import TokenizerSpec

TEMPLATE_KEY = "tokenizer.chat_template"
MOST_TEMPLATES = 32
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass
class ImportedPrompt:
    """What `save` writes into a bundle, what the manifest says of it, and what to tell the user."""

    tokenizer: TokenizerSpec
    templates: dict[str, str]
    report: dict[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def save(self, folder: Path) -> None:
        """Write the tokenizer, and the templates as `templates/NAME.jinja`."""
        self.tokenizer.save(folder)
        (folder / "templates").mkdir()
        for name, text in self.templates.items():
            path = folder / "templates" / f"{name}{SUFFIX}"
            path.write_bytes(text.encode("utf-8"))


def import_prompt(
    metadata: Metadata, chat_template: Path | None, *, generates: bool = True
) -> ImportedPrompt:
    """The tokenizer and the templates of a model; `chat_template` is a file that replaces the
    model's own. One that does not generate text needs none. Raises TokenizerError, or CompileError
    where the default template does not render a user turn at all."""
    spec = import_tokenizer(metadata)
    if chat_template is not None:
        templates = {DEFAULT: read_template(chat_template)}
    else:
        templates = own_templates(metadata)
    tokenizer = create_tokenizer(spec)
    template = ChatTemplate(templates, special_tokens(tokenizer))
    report = prompt_report(template, tokenizer)
    if not generates:
        return ImportedPrompt(spec, templates, {**report, "templates": {}})
    check_default(template, report, chat_template or metadata.label)
    notices = (template.notice,) if template.notice is not None else ()
    return ImportedPrompt(spec, templates, report, notices)


def prompt_report(template: ChatTemplate, tokenizer: Tokenizer) -> dict[str, Any]:
    """What the manifest says of the prompt: for every template what it can do, the tokens that end
    a turn, and the bytes that no token stands for."""
    capabilities = {
        name: check_template(template, name, tokenizer) for name in sorted(template.templates)
    }
    ends = {token: tokenizer.decode_text([token]) for token in sorted(tokenizer.stop_ids)}
    return {
        "source": "ChatML" if template.notice is not None else "model",
        "templates": capabilities,
        "end_tokens": [{"id": token, "text": text} for token, text in ends.items()],
        "adds_begin_token": tokenizer.spec.add_bos,
        "missing_bytes": list(tokenizer.spec.missing_bytes),
    }


def check_default(template: ChatTemplate, report: dict[str, Any], where: Path | str) -> None:
    """Refuse a model whose own default template, which is in the file `where`, renders no user
    turn, in no conversation. Raises CompileError."""
    if template.notice is not None:
        return
    name = DEFAULT if DEFAULT in template.templates else sorted(template.templates)[0]
    verdicts = report["templates"][name]
    if OK not in verdicts.values():
        raise CompileError(
            f"{where}: the chat template cannot render one user turn: {verdicts[USER]}"
        )


def read_template(path: Path) -> str:
    """A template file. Raises CompileError."""
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise CompileError(f"{path}: cannot read the chat template: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CompileError(f"{path}: the byte at offset {error.start} is not UTF-8") from None


def own_templates(metadata: Metadata) -> dict[str, str]:
    """The templates in a model's metadata by name. Raises CompileError for a name that cannot be
    a file's, and for too many."""
    templates = {}
    for key in metadata:
        if key == TEMPLATE_KEY:
            templates[DEFAULT] = metadata.get_str(key)
        elif key.startswith(TEMPLATE_KEY + "."):
            name = key.removeprefix(TEMPLATE_KEY + ".")
            if not NAME.fullmatch(name):
                raise CompileError(
                    f"{metadata.label}: key {quoted(key)}: a template's name has 1 to 64 of "
                    "the characters A-Z a-z 0-9 _ . -"
                )
            templates[name] = metadata.get_str(key)
    if len(templates) > MOST_TEMPLATES:
        raise CompileError(
            f"{metadata.label}: {len(templates)} chat templates, allowed are {MOST_TEMPLATES}"
        )
    return templates
