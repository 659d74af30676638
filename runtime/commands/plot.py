"""The verb `plot`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from prograd_proto.files import load
from prograd_proto.spelling import closest, closest_or_all
from runtime.command_line.ending import EXIT_DONE
from runtime.command_line.outputs import require_free
from runtime.command_line.results import put_result
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.files.output import write_output
from runtime.files.tensor_files import read_npy
from runtime.pictures.drawings import Table, page
from runtime.pictures.pages import require_suffix, written
from runtime.pictures.reports import GRADIENT_PREFIX, Curve, Spread, read_curves, read_spreads
from runtime.rows.confusion import is_confusion

MOST_WATCHED: Final = 30
"""Upper bound on the histograms of one page."""


def plot(options: argparse.Namespace) -> int:
    """Draw the metrics of runs, and tables of metrics, into one picture."""
    require_suffix(options.o)
    require_free([options.o], force=options.force)
    for path in options.files:
        if path.suffix not in (".jsonl", ".csv", ".npy"):
            raise UsageError(f"{path}: metrics are drawn from .jsonl and .csv files, tables of metrics from .npy files")
    tables = [path for path in options.files if path.suffix == ".npy"]
    reports = [path for path in options.files if path.suffix != ".npy"]
    curves = [curve for path, run in zip(reports, _names(reports), strict=True) for curve in read_curves(path, run)]
    curves = _chosen(curves, options.metric)
    spreads = [s for path, run in zip(reports, _names(reports), strict=True) for s in read_spreads(path, run)]
    spreads = _watched(spreads, options.watch, also_without=not options.metric)
    if len(spreads) > MOST_WATCHED:
        options.say(f"{MOST_WATCHED} of {len(spreads)} histograms are drawn; --watch PATTERN chooses others")
    spreads = spreads[:MOST_WATCHED]
    arrays = [read_npy(path) for path in tables]
    stems = [path.stem for path in tables]
    classes = _classes(options.classes, stems, arrays)
    figure = page(curves, [Table(*one) for one in zip(stems, arrays, classes, strict=True)], spreads)
    write_output(options.o, written(figure, options.o.suffix), force=options.force)
    drawn = [("curves", len(curves)), ("histograms", len(spreads)), ("tables", len(tables))]
    put_result(options, "OK", [("runs", len(reports)), *drawn, ("o", options.o)])
    return EXIT_DONE


def _classes(program: Path | None, names: Sequence[str], arrays: Sequence[Array]) -> list[list[str] | None]:
    """Return the names of the classes of each table, from the encoding in a program; None for a table without classes.

    Raises UsageError if the program names the classes of no table.
    """
    if program is None:
        return [None] * len(arrays)
    from runtime.rows.encoding.class_names import class_names  # few pages have tables

    desc = load(program)
    found = [class_names(desc, len(array)) if is_confusion(array) else None for array in arrays]
    if not any(found):
        sizes = ", ".join(f"{name} {[*array.shape]}" for name, array in zip(names, arrays, strict=True)) or "no table"
        if not desc.data.encoding:
            raise UsageError(
                f"--classes {program}: the program names no classes, as its rows were not packed from a table or a "
                "folder of images; leave --classes out"
            )
        raise UsageError(f"--classes {program}: its encoding has no column with the classes of {sizes}")
    return found


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the names of the runs: the shortest distinct forms of their paths."""
    stems, names = [path.stem for path in paths], [path.name for path in paths]
    bare = [str(path.with_suffix("")) for path in paths]
    return next((form for form in (stems, names, bare) if len(set(form)) == len(form)), [str(path) for path in paths])


def _watched(spreads: Sequence[Spread], patterns: Sequence[str], *, also_without: bool) -> list[Spread]:
    """Return the quantiles of parameters that match, or of their gradients.

    Without a pattern, return all, or none if metrics are named. Raises UsageError for a pattern that matches nothing.
    """
    if not patterns:
        return list(spreads) if also_without else []
    names = {spread.name: spread.name.removeprefix(GRADIENT_PREFIX) for spread in spreads}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names.values()):
            hint = closest(pattern, names.values()) or "; execute --watch writes them"
            raise UsageError(f"--watch {pattern}: no file has histograms of it{hint}")
    return [s for s in spreads if any(fnmatchcase(names[s.name], pattern) for pattern in patterns)]


def _chosen(curves: Sequence[Curve], metrics: Sequence[str]) -> list[Curve]:
    """Return the curves of these metrics, in their order; all if none is named."""
    known = list(dict.fromkeys(curve.metric for curve in curves))
    for name in metrics:
        if name not in known:
            raise UsageError(f"--metric {name}: no file has this metric{closest_or_all(name, known)}")
    return [curve for name in metrics or known for curve in curves if curve.metric == name]
