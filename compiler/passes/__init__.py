"""The passes: one rewrite a file, named after it. Their order is in compiler/pipelines.py."""
