"""ggufc.cli package."""
