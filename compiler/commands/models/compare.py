"""The verb `compiler compare`: the numbers of two models on the same inputs."""

from __future__ import annotations

import argparse

from compiler.aligned_text import columns
from compiler.commands.chosen_entry import sizes_given
from compiler.commands.models.given_feeds import given_feeds, random_feeds
from compiler.compare.models import Model, ProgramModel, opened
from compiler.compare.numbers import beginning, differences
from compiler.errors import CompileError, UsageError
from runtime.command_line.results import put_result
from runtime.command_line.streams import put


def compare(options: argparse.Namespace) -> int | None:
    """Print the largest difference of each result, and where the first one begins; exit code 1 if one differs."""
    sizes = sizes_given(options.dim, "--dim", "NAME=SIZE")
    first, second = (opened(path, sizes, options.entry, options.engine) for path in (options.first, options.second))
    if options.load is not None:
        _load(options.load, first, second)
    chosen = second if hasattr(second, "block") else first  # a program knows which integers are positions
    feeds = chosen.feeds(sizes, options.seed, given_feeds(options.feed))
    with random_feeds():
        rows, alone = differences(first.run(feeds), second.run(feeds), options.tolerance)
    if not rows:
        raise CompileError(f"{first.path} and {second.path} have no result of one name")
    shown = [
        (row.name, "shapes differ" if row.shape is None else str(list(row.shape)), f"{row.absolute:.2g}",
         f"{row.relative:.2g}", "agrees" if row.agrees else "differs")
        for row in rows
    ]  # fmt: skip
    put("\n".join(columns(("result", "shape", "largest difference", "relative", "verdict"), shown)))
    for name in alone:
        put(f"only one of both has the result {name}")
    bad = [row for row in rows if not row.agrees]
    if bad:
        put(beginning(first, second, feeds, bad[0].name, options.tolerance))
    worst = max(row.relative for row in rows)
    put_result(
        options, "DIFFERS" if bad or alone else "OK", [("results", str(len(rows))), ("relative", f"{worst:.2g}")]
    )
    return 1 if bad or alone else None


def _load(path: str, *models: Model) -> None:
    """Give the program its states from a file; of two programs, the second one gets them."""
    programs = [model for model in models if isinstance(model, ProgramModel)]
    if not programs:
        raise UsageError(f"--load {path}: an ONNX file has its own weights, and neither model is a program")
    programs[-1].loaded.load(path)
