"""Every error that running a bundle can meet: one line that says what, where, found and allowed."""


class RunError(Exception):
    """The base of all errors of the runtime."""


class BundleError(RunError):
    """A bundle that is missing, damaged, or of another version."""


class MachineError(RunError):
    """This machine cannot run the bundle's code as asked."""


class NativeCodeError(RunError):
    """An object that does not load, or whose entry point reports a failure."""


class ContextError(RunError):
    """More tokens or sequences than the context that was asked for or compiled holds."""


class ArgumentError(RunError):
    """An argument of the Python interface or of a command outside its legal values."""


class SessionFileError(RunError):
    """A session file that is damaged, or made by another model or version."""


class LogitsError(RunError):
    """Logits that no token can be drawn from (NaN, or nothing above minus infinity)."""


class PurposeError(RunError):
    """A model asked for what it was not made for, such as an encoder for text."""


class EmbeddingError(RunError):
    """An embedding that is none: NaN or infinite."""


class ModelClosedError(RunError):
    """Use of a model after `close()`."""
