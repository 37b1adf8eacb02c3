"""compiler.gguf package."""
