"""Everything that rendering a conversation can fail with: one line each, never a traceback."""

from ggufc.runtime.errors import RunError


class PromptError(RunError):
    """The base of all errors of this package. `template_line` is the line of the template, where
    there is one; `construct` what stands there."""

    def __init__(
        self, message: str, template_line: int | None = None, construct: str | None = None
    ) -> None:
        super().__init__(message)
        self.template_line = template_line
        self.construct = construct


class RequestError(PromptError):
    """Messages, tools or variables that have the wrong shape; the message names the path."""


class ControlTokenError(PromptError):
    """Content spells a control token and the policy is `reject`."""

    def __init__(self, path: str, token: str) -> None:
        super().__init__(
            f"{path} contains the control token {token!r}; content must not open or close a turn"
        )
        self.path = path
        self.token = token


class TemplateError(PromptError):
    """The template failed on this conversation: an undefined attribute, a wrong type, a filter
    that does not exist."""


class TemplateSyntaxError(TemplateError):
    """The template does not compile, for any conversation."""


class TemplateRefusal(TemplateError):
    """The template called `raise_exception`: the message is the template's own."""


class TemplateSecurityError(TemplateError):
    """The template reached for something that templates may not touch."""


class TemplateLimitError(TemplateError):
    """The template needs more steps, text, memory, nesting or time than one may."""


class TemplateNameError(PromptError):
    """A named template was asked for that the model does not have."""
