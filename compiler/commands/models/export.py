"""The verb `compiler export`: writes an entry of a program as an ONNX file."""

from __future__ import annotations

import argparse
import os

from compiler.commands.chosen_entry import sizes_given
from compiler.commands.notes import note
from compiler.errors import UsageError
from compiler.exporters.onnx.to_onnx import to_onnx
from runtime.command_line.results import put_result


def export(options: argparse.Namespace) -> None:
    """Write the model, with large weights beside it."""
    if os.path.splitext(options.output)[1] != ".onnx":
        raise UsageError(f"export: {options.output} does not end in .onnx, the format that is written")
    model = to_onnx(
        options.program,
        options.output,
        entry=options.entry,
        states=options.load,
        opset=options.opset,
        sizes=sizes_given(options.bind),
        view=options.view,
        external=0 if options.external_data else None,
        like=options.like,
        raw=options.raw,
        force=options.force,
    )
    if options.view:
        note(options, "note: the nodes are of the domain prograd: viewers show them, and no other runtime runs them")
    if os.path.exists(f"{options.output}.data"):
        note(options, f"note: weights are in {options.output}.data, which must lie beside {options.output}")
    counts = [("nodes", str(len(model.graph.node))), ("weights", str(len(model.graph.initializer)))]
    put_result(options, "OK", [("opset", str(model.opset_import[0].version)), *counts])
