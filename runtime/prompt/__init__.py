"""runtime.prompt package."""
