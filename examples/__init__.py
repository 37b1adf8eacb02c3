"""Short programs that show how to use ggufc; each is run by a test."""
