"""The verb `plot`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from prograd_proto.printable import result_line
from prograd_proto.spelling import closest
from runtime.command_line.ending import EXIT_DONE
from runtime.command_line.outputs import require_free
from runtime.command_line.streams import put
from runtime.errors import UsageError
from runtime.files.output import write_output
from runtime.files.tensor_files import read_npy
from runtime.pictures.drawings import Table, page
from runtime.pictures.pages import require_suffix, written
from runtime.pictures.reports import Curve, read_curves


def plot(options: argparse.Namespace) -> int:
    """Draw the metrics of runs, and tables of metrics, into one picture."""
    require_suffix(options.o)
    require_free([options.o], force=options.force)
    tables = [path for path in options.files if path.suffix == ".npy"]
    reports = [path for path in options.files if path.suffix != ".npy"]
    curves = [curve for path, run in zip(reports, _names(reports), strict=True) for curve in read_curves(path, run)]
    curves = _chosen(curves, options.metric)
    figure = page(curves, [Table(path.stem, read_npy(path)) for path in tables])
    write_output(options.o, written(figure, options.o.suffix), force=options.force)
    put(result_line("OK", [("runs", len(reports)), ("curves", len(curves)), ("tables", len(tables)), ("o", options.o)]))
    return EXIT_DONE


def _names(paths: Sequence[Path]) -> list[str]:
    """What the runs are called: the name of the file, with its folder where several have the same."""
    stems = [path.stem for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    return [str(path.with_suffix("")) for path in paths]


def _chosen(curves: Sequence[Curve], metrics: Sequence[str]) -> list[Curve]:
    """The curves of these metrics, in their order; all if none is named."""
    known = list(dict.fromkeys(curve.metric for curve in curves))
    for name in metrics:
        if name not in known:
            hint = closest(name, known) or f"; there are {', '.join(known) or 'none'}"
            raise UsageError(f"--metric {name}: no file has this metric{hint}")
    return [curve for name in metrics or known for curve in curves if curve.metric == name]
