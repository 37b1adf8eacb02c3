"""The memory plan: lifetimes, arena offsets, and the check of both."""
