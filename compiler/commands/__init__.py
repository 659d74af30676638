"""Verbs of the command `compiler` that are more than a few lines."""
