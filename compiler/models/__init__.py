"""compiler.models package."""
