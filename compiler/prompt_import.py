"""From the metadata of a model to the prompt part of its bundle: tokenizer and chat templates."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ggufc.compiler.errors import CompileError, quoted
from ggufc.compiler.gguf import Metadata
from ggufc.compiler.tokenizer_import import import_tokenizer
from ggufc.runtime.prompt.chat import CHATML_NOTICE, DEFAULT, SUFFIX
from ggufc.tokenizer.spec import TokenizerSpec

TEMPLATE_KEY = "tokenizer.chat_template"
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
            path = folder / "templates" / (name + SUFFIX)
            path.write_text(text, encoding="utf-8", newline="")


def import_prompt(metadata: Metadata, chat_template: Path | None) -> ImportedPrompt:
    """The tokenizer and the templates of a model; `chat_template` is a file that replaces the
    model's own. Raises TokenizerError or CompileError."""
    tokenizer = import_tokenizer(metadata)
    if chat_template is not None:
        templates = {DEFAULT: read_template(chat_template)}
    else:
        templates = own_templates(metadata)
    notices = () if templates else (CHATML_NOTICE,)
    return ImportedPrompt(tokenizer, templates, notices=notices)


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
    a file's."""
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
    return templates
