"""compiler.passes package."""
