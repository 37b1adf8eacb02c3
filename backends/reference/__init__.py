"""backends.reference package."""
