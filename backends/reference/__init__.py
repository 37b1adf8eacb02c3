"""The reference backend: a module run by the interpreter of the IR, slow and exact."""

from ggufc.backends.reference.backend import ReferenceBackend

__all__ = ["ReferenceBackend"]
