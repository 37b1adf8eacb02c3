"""Everything that rendering a conversation can fail with: one line each, never a traceback."""

from ggufc.runtime.errors import RunError


class PromptError(RunError):
    """The base of all errors of this package. `kind` is a word for programs, `template_line` the
    line of the template, where there is one; `construct` what stands there."""

    kind = "prompt_error"

    def __init__(
        self, message: str, template_line: int | None = None, construct: str | None = None
    ) -> None:
        super().__init__(message)
        self.template_line = template_line
        self.construct = construct


class RequestError(PromptError):
    """Messages, tools or variables that have the wrong shape; the message names the path."""

    kind = "invalid_request"


class ControlTokenError(PromptError):
    """Content spells a control token and the policy is `reject`."""

    kind = "control_token"

    def __init__(self, path: str, token: str) -> None:
        super().__init__(
            f"{path} contains the control token {token!r}; content must not open or close a turn"
        )
        self.path = path
        self.token = token


class TemplateError(PromptError):
    """The template failed on this conversation: an undefined attribute, a wrong type, a filter
    that does not exist."""

    kind = "template_error"


class TemplateSyntaxError(TemplateError):
    """The template does not compile, for any conversation."""

    kind = "template_syntax"


class TemplateRefusal(TemplateError):
    """The template called `raise_exception`: the message is the template's own."""

    kind = "template_refusal"


class TemplateSecurityError(TemplateError):
    """The template reached for something that templates may not touch."""

    kind = "template_security"


class TemplateLimitError(TemplateError):
    """The template needs more steps, text, memory, nesting or time than one may."""

    kind = "template_limit"


class TemplateNameError(PromptError):
    """A named template was asked for that the model does not have."""

    kind = "unknown_template"
