"""ir.ops package."""
