"""Callbacks of a training: `run.train(callbacks=[EarlyStopping(patience=5), report])`.

A callback is a function that is called with every event, or an object of a subclass of `Callback` with methods for
the kinds of events. `EarlyStopping` and `ReduceOnPlateau` are judged by the run.
"""

from __future__ import annotations

from runtime.runs.run import Run
from runtime.runs.watching.called import Called
from runtime.runs.watching.judged import EarlyStopping, ReduceOnPlateau

__all__ = ["Callback", "EarlyStopping", "ReduceOnPlateau"]


class Callback(Called):
    """A base class of callbacks; a subclass overrides the methods that it needs.

    Attributes:
        run: the run that trains. `run.stop()` ends the training after the present step, and `run.set(rate=1e-4)`
            changes a setting for the steps to come.
    """

    run: Run
