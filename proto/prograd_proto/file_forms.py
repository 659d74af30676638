"""Names of files whose suffix promises another format than the one that is written."""

import os
from pathlib import PurePath
from typing import Final

KNOWN: Final = frozenset(
    [
        *[".bin", ".ckpt", ".gguf", ".h5", ".hdf5", ".keras", ".onnx", ".pickle", ".pkl", ".pt", ".pth", ".tflite"],
        *[".npy", ".npz", ".safetensors", ".pb", ".pbtxt"],
        *[".csv", ".html", ".json", ".jsonl", ".parquet", ".png", ".svg", ".tsv", ".txt", ".xlsx", ".xml", ".yaml"],
    ]
)  # fmt: skip
"""Suffixes that stand for a format."""


def other_form(path: str | os.PathLike[str], suffix: str, what: str) -> str:
    """Return a sentence if the name of a file stands for another format than that of `suffix`, else "".

    Args:
        path: the file that would be written.
        suffix: suffix of the format that is written, with its dot, as in ".npy".
        what: content that is written, in the plural, as in "arrays".
    """
    name = PurePath(path)
    if name.suffix.lower() not in KNOWN - {suffix}:
        return ""
    return f"{os.fspath(path)}: {what} are written as {suffix} files; write {name.with_suffix(suffix).name}"
