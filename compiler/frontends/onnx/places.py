"""The line of the source that a node of a graph was exported from, where the exporter wrote it down."""

from __future__ import annotations

from typing import Any

from compiler.frontends.report import source_line


def line_of(node: Any) -> str:
    """Return the file and line of PyTorch's exporter for a node; "" without one."""
    for entry in getattr(node, "metadata_props", ()):
        if entry.key == "pkg.torch.onnx.stack_trace":
            path, line = source_line(entry.value)
            if path:
                return f"{path.rpartition('/')[2]}:{line}"
    return ""
