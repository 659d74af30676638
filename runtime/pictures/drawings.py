"""Curves, distributions of states, confusion matrices and ROC curves on one page, by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from prograd_proto.printable import sentence
from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.extras import extra
from runtime.pictures.reports import GRADIENT_PREFIX, Curve, Spread

_COLORS: Final = ("#3366cc", "#dc3912", "#109618", "#ff9900", "#990099", "#0099c6", "#dd4477", "#66aa00")
_ACROSS: Final = 3
_MOST_POINTS: Final = 1000
_SMOOTHED_SHARE: Final = 25  # a smoothed curve has means over one of this many parts of the steps
_LEAST_SMOOTHED: Final = 50  # steps below which a curve is drawn as it is
_FIRST_STEPS: Final = 50  # one of this many parts of the steps may lie outside of a picture, as they begin far away
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
    names = _paired(list(dict.fromkeys(spread.name for spread in spreads)))
    runs = list(dict.fromkeys(drawn.run for drawn in [*curves, *spreads]))
    is_paired = any(name.startswith(GRADIENT_PREFIX) for name in names)
    kinds = [len(metrics), len(names), len(tables)]
    across = 4 if is_paired and len(names) > 2 else 2 if is_paired else min(sum(kinds), _ACROSS)
    downs = [-(-count // across) for count in kinds] if is_paired else [-(-sum(kinds) // across), 0, 0]
    figure = extra("matplotlib.figure", "plot", "runtime plot").Figure(
        figsize=(5.2 * across, 3.8 * sum(downs)), layout="constrained"
    )
    firsts = [0, downs[0] * across, sum(downs[:2]) * across] if is_paired else [0, kinds[0], sum(kinds[:2])]

    def axes_of(kind: int) -> list[Any]:
        return [figure.add_subplot(sum(downs), across, firsts[kind] + i + 1) for i in range(kinds[kind])]

    for axes, metric in zip(axes_of(0), metrics, strict=True):
        _draw_curves(axes, metric, [curve for curve in curves if curve.metric == metric], runs)
    for axes, name in zip(axes_of(1), names, strict=True):
        _draw_spreads(axes, name, [spread for spread in spreads if spread.name == name], runs)
    for axes, table in zip(axes_of(2), tables, strict=True):
        _draw_table(axes, table)
    return figure


def _paired(names: list[str]) -> list[str]:
    """Return the names of states and gradients, each gradient behind its state."""
    found: list[str] = []
    for name in names:
        gradient = f"{GRADIENT_PREFIX}{name}"
        if not (name.startswith(GRADIENT_PREFIX) and name.removeprefix(GRADIENT_PREFIX) in names):
            found += [name, gradient] if gradient in names else [name]
    return found


def _draw_curves(axes: Any, metric: str, curves: Sequence[Curve], runs: Sequence[str]) -> None:
    """Draw steps as thin lines below their means, epochs as lines, and evaluations dashed.

    An epoch is drawn in its middle if its value is a mean of its steps. A point marks the evaluation whose states were
    kept.
    """
    steps_of = {curve.run: curve for curve in curves if curve.of == "steps"}
    has_epochs = {curve.run for curve in curves if curve.of == "epochs" and not _are_ends(curve, steps_of)}
    seen: list[float] = []
    for curve in curves:
        color = _COLORS[runs.index(curve.run) % len(_COLORS)]
        label = _word(f"{curve.run}, {curve.of}" if len(runs) > 1 else curve.of)
        point = "." if len(curve.steps) < 2 else None
        if curve.of == "steps":
            seen += _draw_steps(axes, curve, color, None if curve.run in has_epochs else label)
            continue
        if curve.of == "epochs" and curve.run not in has_epochs:
            continue
        steps, values = _thinned(_in_the_middle(curve) if curve.of == "epochs" else curve)
        seen += values
        style = "-" if curve.of == "epochs" else "--"
        axes.plot(steps, values, color=color, lw=1.5, ls=style, marker=point, label=label)
        if curve.best in curve.steps:
            axes.plot([curve.best], [curve.values[curve.steps.index(curve.best)]], "o", color=color, ms=5)
    low, high = min(seen), max(seen)
    if steps_of and high > low:
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.set_title(_word(metric))
    axes.set_xlabel("step")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")


def _draw_steps(axes: Any, curve: Curve, color: str, label: str | None) -> list[float]:
    """Draw the values of steps, below their running mean if there are many, and return values to be seen."""
    count = len(curve.steps)
    if count < _LEAST_SMOOTHED:
        axes.plot(curve.steps, curve.values, color=color, lw=1, alpha=0.35 if label is None else 1, label=label)
        return curve.values
    steps, values = _thinned(curve)
    smooth = curve._replace(values=_smoothed(curve.values, -(-count // _SMOOTHED_SHARE)))
    axes.plot(steps, values, color=color, lw=0.6, alpha=0.3)
    axes.plot(*_thinned(smooth), color=color, lw=0.9 if label is None else 1.5, alpha=0.7, label=label)
    later = curve.values[count // _FIRST_STEPS :]
    return [*smooth.values[count // _FIRST_STEPS :], *np.quantile(later, (0.01, 0.99)).tolist()]


def _smoothed(values: Sequence[float], width: int) -> list[float]:
    """Return for each value the mean of those around it, of `width` or as many as there are at the ends."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    half = np.minimum(np.minimum(at, len(values) - 1 - at), width // 2)
    return ((sums[at + half + 1] - sums[at - half]) / (2 * half + 1)).tolist()


def _are_ends(epochs: Curve, steps_of: Mapping[str, Curve]) -> bool:
    """Return True if the values of epochs are those of their last steps, as for a rate, which the steps show."""
    steps = steps_of.get(epochs.run)
    if steps is None:
        return False
    known = dict(zip(steps.steps, steps.values, strict=True))
    return all(known.get(step) == value for step, value in zip(epochs.steps, epochs.values, strict=True))


def _in_the_middle(curve: Curve) -> Curve:
    """Return the values of epochs at the middle of their steps."""
    begins = [curve.steps[0] - _first_length(curve.steps), *curve.steps[:-1]]
    return curve._replace(steps=[(begin + end + 1) / 2 for begin, end in zip(begins, curve.steps, strict=True)])


def _first_length(ends: Sequence[float]) -> float:
    """Return the steps of the first epoch: those of the second one, which a resumed run may begin later than at 0."""
    return min(ends[0], ends[1] - ends[0]) if len(ends) > 1 else ends[0]


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


def _thinned(curve: Curve) -> tuple[list[float], list[float]]:
    """Return as many points as can be seen, each the mean of neighbouring points."""
    group = -(-len(curve.steps) // _MOST_POINTS)
    starts = range(0, len(curve.steps), group)
    means = [float(np.mean(curve.values[start : start + group])) for start in starts]
    return [curve.steps[min(start + group, len(curve.steps)) - 1] for start in starts], means


def _word(text: str) -> str:
    """Return the text so that matplotlib draws `$` and a leading `_`, rather than a formula or a hidden label."""
    text = sentence(text, 60).replace("$", r"\$")
    return f"\u200a{text}" if text.startswith("_") else text
