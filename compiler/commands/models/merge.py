"""The verb `compiler merge`: adds low-rank adapters to their weights, or writes the adapters alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from compiler.build.well_formed import well_formed
from compiler.errors import UsageError
from compiler.exporters.merged_states import adapters_alone, merged_states
from runtime.command_line.results import put_result
from runtime.files.tensor_files import write_safetensors
from runtime.runs.run import Run, load
from runtime.runs.untrained import warn_of_initial_values


def merge(options: argparse.Namespace) -> None:
    """Write the states."""
    well_formed(options.program)
    run = load(Path(options.program), engine="reference", threads=1)
    if options.load is not None:
        run.load(options.load, only=options.only)
    run.states.require()
    if options.layout != "prograd":
        told = _write_folder(options, run)
    else:
        states = (adapters_alone if options.adapters else merged_states)(run.program, run.states.arrays)
        write_safetensors(options.output, states, {}, force=options.force)
        told = "states", len(states)
    warn_of_initial_values(run.program, run.states, "the adapters have initial values")
    put_result(options, "OK", [told])


def _write_folder(options: argparse.Namespace, run: Run) -> tuple[str, int]:
    """Write a tuned language model, or its adapters, as a folder for other programs; return counts for the result."""
    from compiler.exporters.language_models import write_hf, write_peft  # few programs are language models

    folder, beside = Path(options.output), Path(options.program).parent
    if options.layout == "gguf":
        return _write_gguf(options, run, folder, beside)
    if folder.suffix == ".safetensors":
        raise UsageError(f"-o {options.output}: --layout {options.layout} writes a folder, not a file")
    if options.layout == "peft":
        count = write_peft(run.program, run.states.arrays, folder, force=options.force)
        return "modules", count
    if options.adapters:
        raise UsageError("--adapters: --layout hf writes a whole model; --layout peft writes adapters")
    count = write_hf(run.program, run.states.arrays, beside, folder, force=options.force)
    return "weights", count


def _write_gguf(options: argparse.Namespace, run: Run, path: Path, beside: Path) -> tuple[str, int]:
    """Write a tuned language model as a file of GGUF; return counts for the result."""
    from compiler.exporters.gguf import write_gguf

    if path.suffix != ".gguf":
        raise UsageError(f"-o {options.output}: --layout gguf writes a file, whose name ends in .gguf")
    if options.adapters:
        raise UsageError("--adapters: --layout gguf writes a whole model; --layout peft writes adapters")
    count = write_gguf(run.program, run.states.arrays, beside, path, force=options.force)
    return "tensors", count
