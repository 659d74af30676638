"""Curves, distributions of states, confusion matrices and ROC curves on one page, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from prograd_proto.printable import sentence
from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.extras import extra
from runtime.pictures.reports import Curve, Spread

_COLORS: Final = ("#3366cc", "#dc3912", "#109618", "#ff9900", "#990099", "#0099c6", "#dd4477", "#66aa00")
_ACROSS: Final = 3
_MOST_POINTS: Final = 1000
_MOST_NUMBERS: Final = 20  # number of classes up to which a confusion matrix shows its numbers

_CLASS_CHARACTERS: Final = 24  # of the name of a class at an axis


class Table(NamedTuple):
    """An array of a metric, its title, and the names of its classes if they are known."""

    name: str
    array: Array
    classes: Sequence[str] | None = None


def page(curves: Sequence[Curve], tables: Sequence[Table], spreads: Sequence[Spread] = ()) -> Any:
    """Return a figure with the curves of all runs per metric, one picture per distribution and one per table.

    Raises DataError for a table that cannot be drawn, UsageError if matplotlib is missing.
    """
    metrics = list(dict.fromkeys(curve.metric for curve in curves))
    names = list(dict.fromkeys(spread.name for spread in spreads))
    count = len(metrics) + len(names) + len(tables)
    across = min(count, _ACROSS)
    down = -(-count // across)
    figure = extra("matplotlib.figure", "plot", "runtime plot").Figure(
        figsize=(5.2 * across, 3.8 * down), layout="constrained"
    )
    places = [figure.add_subplot(down, across, i + 1) for i in range(count)]
    runs = list(dict.fromkeys(drawn.run for drawn in [*curves, *spreads]))
    for axes, metric in zip(places, metrics, strict=False):
        _draw_curves(axes, metric, [curve for curve in curves if curve.metric == metric], runs)
    for axes, name in zip(places[len(metrics) :], names, strict=False):
        _draw_spreads(axes, name, [spread for spread in spreads if spread.name == name], runs)
    for axes, table in zip(places[len(metrics) + len(names) :], tables, strict=True):
        _draw_table(axes, table)
    return figure


def _draw_curves(axes: Any, metric: str, curves: Sequence[Curve], runs: Sequence[str]) -> None:
    """Draw steps as thin lines, epochs as lines, and evaluations dashed with a point where states were kept."""
    has_epochs = {curve.run for curve in curves if curve.of == "epochs"}
    for curve in curves:
        color = _COLORS[runs.index(curve.run) % len(_COLORS)]
        label = _word(f"{curve.run}, {curve.of}" if len(runs) > 1 else curve.of)
        steps, values = _thinned(curve)
        if curve.of == "steps":
            aside = curve.run in has_epochs
            axes.plot(steps, values, color=color, lw=0.6, alpha=0.35 if aside else 1, label=None if aside else label)
        elif curve.of == "epochs":
            axes.plot(steps, values, color=color, lw=1.5, marker="." if len(steps) < 2 else None, label=label)
        else:
            axes.plot(steps, values, color=color, lw=1.5, ls="--", marker="." if len(steps) < 2 else None, label=label)
            if curve.best in curve.steps:
                axes.plot([curve.best], [curve.values[curve.steps.index(curve.best)]], "o", color=color, ms=5)
    axes.set_title(_word(metric))
    axes.set_xlabel("step")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")


def _draw_spreads(axes: Any, name: str, spreads: Sequence[Spread], runs: Sequence[str]) -> None:
    """Draw the median as a line, with bands for half of the elements, nine tenths of them, and all."""
    for spread in spreads:
        color = _COLORS[runs.index(spread.run) % len(_COLORS)]
        low, few, quarter, median, three, most, high = np.array(spread.numbers).T
        for bottom, top, alpha in ((low, high, 0.12), (few, most, 0.2), (quarter, three, 0.35)):
            if len(spread.steps) > 1:
                axes.fill_between(spread.steps, bottom, top, color=color, alpha=alpha, lw=0)
            else:
                axes.bar(spread.steps, top - bottom, 0.5, bottom, color=color, alpha=alpha)
        label = _word(spread.run) if len(runs) > 1 else "median"
        axes.plot(spread.steps, median, color=color, lw=1.2, marker="." if len(median) < 2 else None, label=label)
    axes.set_title(_word(name))
    axes.set_xlabel("step")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def _draw_table(axes: Any, table: Table) -> None:
    array = table.array
    axes.set_title(_word(table.name))
    if array.ndim == 2 and array.shape[0] == array.shape[1] and array.dtype.kind in "iu" and array.size:
        _draw_confusion(axes, array, table.classes)
    elif array.ndim == 2 and array.shape[1] == 2 and array.dtype.kind == "f" and _are_shares(array):
        _draw_roc(axes, array)
    else:
        raise DataError(
            f"{table.name}: there is a picture of confusion matrices, whole numbers[classes, classes], and of ROC "
            f"curves, shares[points, 2]; this is {array.dtype.name}{[*array.shape]}"
        )


def _draw_confusion(axes: Any, counts: Array, classes: Sequence[str] | None) -> None:
    """Draw labels down and predictions across; shades are shares of a label, numbers are counts."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xlabel("prediction")
    axes.set_ylabel("label")
    if len(counts) <= _MOST_NUMBERS:
        words = [_word(sentence(name, _CLASS_CHARACTERS)) for name in classes] if classes else None
        axes.set_xticks(range(len(counts)), words, **({"rotation": 45} if words else {}))
        axes.set_yticks(range(len(counts)), words)
        for (i, j), count in np.ndenumerate(counts):
            color = "white" if shares[i, j] > 0.5 else "black"
            axes.text(j, i, str(count), ha="center", va="center", color=color, fontsize="small")


def _draw_roc(axes: Any, rates: Array) -> None:
    """Draw the rate of true positives over that of false ones; the area is the sum of trapezoids."""
    area = float(np.sum(np.diff(rates[:, 0]) * (rates[1:, 1] + rates[:-1, 1]) / 2))
    axes.plot(rates[:, 0], rates[:, 1], color=_COLORS[0], label=f"area {area:.4f}")
    axes.plot([0, 1], [0, 1], color="gray", lw=0.8, ls=":")
    axes.set_xlabel("false positives, share")
    axes.set_ylabel("true positives, share")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def _are_shares(array: Array) -> bool:
    return bool(len(array) > 1 and array.min() >= 0 and array.max() <= 1)


def _thinned(curve: Curve) -> tuple[list[int], list[float]]:
    """Return as many points as can be seen, each the mean of neighbouring points."""
    group = -(-len(curve.steps) // _MOST_POINTS)
    starts = range(0, len(curve.steps), group)
    means = [float(np.mean(curve.values[start : start + group])) for start in starts]
    return [curve.steps[min(start + group, len(curve.steps)) - 1] for start in starts], means


def _word(text: str) -> str:
    """Return the text so that matplotlib draws `$` and a leading `_`, rather than a formula or a hidden label."""
    text = sentence(text, 60).replace("$", r"\$")
    return f"\u200a{text}" if text.startswith("_") else text
