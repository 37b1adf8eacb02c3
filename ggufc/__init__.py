"""ggufc: an ahead-of-time compiler and runtime for GGUF language models on CPUs."""
