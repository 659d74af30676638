"""The verb `compiler merge`: adds low-rank adapters to their weights, or writes the adapters alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from compiler.build.well_formed import well_formed
from compiler.exporters.merged_states import adapters_alone, merged_states
from runtime.command_line.results import put_result
from runtime.files.tensor_files import write_safetensors
from runtime.runs.run import load


def merge(options: argparse.Namespace) -> None:
    """Write the states."""
    well_formed(options.program)
    run = load(Path(options.program), engine="reference", threads=1)
    if options.load is not None:
        run.load(options.load, only=options.only)
    run.states.require()
    states = (adapters_alone if options.adapters else merged_states)(run.program, run.states.arrays)
    write_safetensors(options.output, states, {}, force=options.force)
    put_result(options, "OK", [("states", str(len(states)))])
