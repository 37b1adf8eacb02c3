"""backends.llvm package."""
