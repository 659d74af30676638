"""The line of the source that a node of a graph was exported from, where the exporter wrote it down."""

# pyright: basic
# onnx is imported by name and has no types here.

from __future__ import annotations

import re
from typing import Any


def line_of(node: Any) -> str:
    """Return the file and line of PyTorch's exporter for a node; "" without one."""
    for entry in getattr(node, "metadata_props", ()):
        if entry.key == "pkg.torch.onnx.stack_trace":
            found = re.findall(r'File "(.+?)", line (\d+)', entry.value)
            if found:
                return f"{found[-1][0].rpartition('/')[2]}:{found[-1][1]}"
    return ""
