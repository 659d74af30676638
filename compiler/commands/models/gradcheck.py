"""The verb `compiler gradcheck`: numeric against analytic gradients of a program."""

from __future__ import annotations

import argparse
from pathlib import Path

from compiler.aligned_text import columns
from compiler.build.well_formed import well_formed
from compiler.commands.chosen_entry import chosen_entry, sizes_given
from compiler.commands.models.given_feeds import given_feeds, random_feeds
from compiler.gradcheck.check import gradcheck as checked
from compiler.gradcheck.check import not_checked
from runtime.command_line.results import put_result
from runtime.command_line.streams import put
from runtime.runs.run import load


def gradcheck(options: argparse.Namespace) -> int | None:
    """Print a row for each parameter; exit code 1 if a gradient is wrong, or no element of one could be compared."""
    well_formed(options.program)  # a run checks the bound blocks, but gradients are taken of the block as it was built
    run = load(Path(options.program), engine="reference", threads=1)
    if options.load is not None:
        run.load(options.load)
    run.states.require()
    entry = chosen_entry(options.program, run.program, options.entry)
    sizes = {dim.symbol: dim.size for each in entry.bindings[:1] for dim in each.dims} | sizes_given(options.bind)
    with random_feeds():
        rows = checked(
            run, entry=entry.name, sizes=sizes, elements=options.elements, tolerance=options.tolerance,
            rounding=options.rounding, seed=options.seed, feeds=given_feeds(options.feed), engine=options.engine,
        )  # fmt: skip
    shown = [
        (row.name, str(list(row.shape)), str(row.checked), str(row.kinks), f"{row.difference:.1e}",
         f"{row.rounding:.1e}", row.verdict)
        for row in rows
    ]  # fmt: skip
    heads = ("parameter", "shape", "checked", "kinks", "numeric", "rounding", "verdict")
    put("\n".join(columns(heads, shown, right=("checked", "kinks", "numeric", "rounding"))))
    for sentence in not_checked(run.program, entry.name):
        put(sentence)
    undecided = [row.name for row in rows if row.verdict == "UNDECIDED"]
    if undecided:
        put(
            f"undecided, as the loss has a kink at every element that was tried: {', '.join(undecided)}; try more by "
            "--elements, or other values by --seed or --load"
        )
    wrong = [row.name for row in rows if row.verdict == "WRONG"]
    counts = [("parameters", str(len(rows))), ("elements", str(sum(row.checked for row in rows)))]
    word = "WRONG" if wrong else "UNDECIDED" if undecided else "OK"
    put_result(options, word, [*counts, ("wrong", str(len(wrong)))])
    return 1 if wrong or undecided else None
