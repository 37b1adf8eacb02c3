"""backends.llvm.kernels package."""
