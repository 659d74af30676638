"""The format of a model by the name of its file, for `compiler import model.onnx`."""

from __future__ import annotations

from collections.abc import Sequence

IMPORTS = {"onnx": ".onnx", "torch": ".pt2", "lm": "/"}
"""Ending of the names that each verb of `import` reads: of files, and of the folder of a language model."""


def format_of(words: Sequence[str]) -> str | None:
    """Return which verb of `import` reads the first source among the words."""
    for word in words:
        for kind, suffix in IMPORTS.items():
            if word.lower().endswith(suffix) and not word.startswith("-"):
                return kind
    return "torch" if not words[0].startswith("-") and ":" in words[0] else None
