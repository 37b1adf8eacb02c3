"""Chat templates of a model: which one, and how a conversation goes through it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggufc.runtime.prompt.errors import RequestError, TemplateNameError
from ggufc.runtime.prompt.limits import DEFAULT_LIMITS, Budget, Limits
from ggufc.runtime.prompt.rendered import Rendered
from ggufc.runtime.prompt.request import Request

if TYPE_CHECKING:
    from ggufc.runtime.prompt.compiled import CompiledTemplate
    from ggufc.runtime.prompt.continued import ContinuedMessage

DEFAULT = "chat_template"
TOOL_USE = "tool_use"
SUFFIX = ".jinja"
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CHATML_NOTICE = "the model has no chat template; conversations are written in ChatML"


@dataclass(frozen=True)
class Conversation:
    """What is rendered: messages, and everything else that a template may ask for.

    `continue_final_message` leaves the last message open, for the model to go on with; as a name
    it says which field of it. `add_generation_prompt` opens the assistant's turn: by default it
    does unless the last message is continued. `variables` are further template variables that the
    request brings, `trusted_variables` those of whoever runs the program: control tokens in them
    count.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None = None
    documents: Sequence[Mapping[str, Any]] | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    trusted_variables: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool | None = None
    continue_final_message: bool | str = False
    now: datetime | None = None

    @property
    def opens_turn(self) -> bool:
        """Whether the assistant's turn is opened. Raises RequestError where the last message is
        to be continued as well."""
        if self.add_generation_prompt and self.continue_final_message:
            raise RequestError(
                "continue_final_message and add_generation_prompt exclude each other: the first "
                "goes on with the last message, the second begins a new one"
            )
        if self.add_generation_prompt is None:
            return not self.continue_final_message
        return self.add_generation_prompt


# The fields of a conversation that are no lists or objects; `Request` checks those.
_KINDS: dict[str, tuple[type | None, ...]] = {
    "add_generation_prompt": (bool, None),
    "continue_final_message": (bool, str),
    "now": (datetime, None),
}


def check_kinds(conversation: Conversation) -> None:
    """Raise RequestError for a field of another type."""
    for name, kinds in _KINDS.items():
        value = getattr(conversation, name)
        if not isinstance(value, tuple(type(None) if kind is None else kind for kind in kinds)):
            words = " or ".join("None" if kind is None else kind.__name__ for kind in kinds)
            raise RequestError(f"{name}: expected {words}, found {value!r:.40}")


def refuse_media(media: Iterable[tuple[str, str]]) -> None:
    """Raise RequestError for the first of the parts that are no text, given as path and kind."""
    for path, kind in media:
        raise RequestError(f"{path}: this model reads text only, not {kind!r}")


class ChatTemplate:
    """The templates of one model by name, of which `chat_template` is the default.

    `special_tokens` are variables such as `bos_token`; `own` says whether the templates are the
    model's own, in which case the tokenizer completes the begin token.
    """

    def __init__(
        self,
        templates: Mapping[str, str],
        special_tokens: Mapping[str, str] | None = None,
        *,
        own: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.templates = dict(templates) or {DEFAULT: CHATML}
        self.special_tokens = dict(special_tokens or {})
        self.own = own
        self.notice = None if templates else CHATML_NOTICE
        self._limits = limits
        self._compiled: dict[str, CompiledTemplate] = {}

    @classmethod
    def load(cls, bundle: Path, special_tokens: Mapping[str, str]) -> ChatTemplate:
        """The templates in a bundle."""
        files = sorted((bundle / "templates").glob("*" + SUFFIX))
        templates = {path.name.removesuffix(SUFFIX): path.read_bytes().decode() for path in files}
        return cls(templates, special_tokens)

    def name_for(self, name: str | None, tools: object) -> str:
        """The name of the template to use: the one asked for, else `tool_use` for a conversation
        with tools, else the default. Raises TemplateNameError."""
        if name is not None:
            chosen = DEFAULT if name == "default" and name not in self.templates else name
            if not isinstance(chosen, str) or chosen not in self.templates:
                known = ", ".join(sorted(self.templates))
                raise TemplateNameError(f"no chat template {name!r:.60}; the model has {known}")
            return chosen
        if tools is not None and TOOL_USE in self.templates:
            return TOOL_USE
        if DEFAULT in self.templates:
            return DEFAULT
        if "default" in self.templates:
            return "default"
        known = ", ".join(sorted(self.templates))
        raise TemplateNameError(f"the model has no default chat template; name one of {known}")

    def compiled(self, name: str) -> CompiledTemplate:
        """A template, compiled when it is first used. Raises TemplateSyntaxError."""
        if name not in self._compiled:
            from ggufc.runtime.prompt.compiled import CompiledTemplate

            self._compiled[name] = CompiledTemplate(self.templates[name], self._limits)
        return self._compiled[name]

    def render(
        self, conversation: Conversation, name: str | None = None, *, text_only: bool = False
    ) -> Rendered:
        """The prompt of a conversation, by the template of that name. `text_only` refuses parts
        that are no text before the template sees them. Raises PromptError."""
        check_kinds(conversation)
        opens_turn = conversation.opens_turn
        request = Request()
        messages = request.messages(conversation.messages)
        if text_only:
            refuse_media(request.media)
        template = self.compiled(self.name_for(name, conversation.tools))
        variables = self._variables(conversation, request)
        last = self._continued(conversation, template, messages, request)
        budget = Budget(self._limits, request.known, request.weight)
        text = template.render(
            {**variables, "messages": messages, "add_generation_prompt": opens_turn},
            budget,
            conversation.now,
        )
        rendered = Rendered(text, request.sources, tuple(request.media))
        return last.cut(rendered) if last is not None else rendered

    def _continued(
        self,
        conversation: Conversation,
        template: CompiledTemplate,
        messages: list[dict[str, Any]],
        request: Request,
    ) -> ContinuedMessage | None:
        if not conversation.continue_final_message:
            return None
        from ggufc.runtime.prompt.continued import ContinuedMessage

        wanted = conversation.continue_final_message
        field = wanted if isinstance(wanted, str) else "content"
        return ContinuedMessage(field, messages, template.source, request)

    def _variables(self, conversation: Conversation, request: Request) -> dict[str, Any]:
        from ggufc.runtime.prompt.marked import Marked
        from ggufc.runtime.prompt.sources import TEMPLATE, Author

        special = {n: Marked(text, TEMPLATE) for n, text in self.special_tokens.items()}
        return {
            **special,
            **request.variables(conversation.trusted_variables, Author.TEMPLATE),
            **request.variables(conversation.variables, Author.REQUEST),
            "tools": request.objects("tools", conversation.tools),
            "documents": request.objects("documents", conversation.documents),
        }
