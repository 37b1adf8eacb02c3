"""compiler.memory package."""
