"""Tables of rates: schedulers that call a function of Python at each step are evaluated for the steps of a run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any, Final

from compiler.errors import CompileError
from registry import Value, ops

FIRST_STEPS: Final = 1 << 12
"""Steps that are evaluated at least."""

MAX_STEPS: Final = 1 << 20
"""Steps that are evaluated at most; a longer run keeps the rate of the last one."""

Store = Callable[[Any], Value]
"""A function that puts an array of NumPy into the program."""


def factors(scheduler: Any, number: int) -> Any:
    """Return the factors of the first rate of a parameter group, float64 [steps]; behind them the last one stays.

    Raises CompileError if the function of the scheduler cannot be evaluated.
    """
    name, function = type(scheduler).__name__, scheduler.lr_lambdas[number]
    is_product = name == "MultiplicativeLR"

    def at(steps: range) -> list[float]:
        try:
            return [float(function(step)) for step in steps]
        except Exception as error:  # of any class
            raise CompileError(
                f"scheduler={name}: its function cannot be evaluated for all steps ({type(error).__name__}: {error}); "
                "use prograd.schedules"
            ) from error

    count = FIRST_STEPS
    known = ([1.0] if is_product else at(range(1))) + at(range(1, count))
    while count < MAX_STEPS and not (_is_settled(known, is_product) and _stays(known[-1], at, count)):
        known += at(range(count, 2 * count))
        count *= 2
    table = list(accumulate(known, mul)) if is_product else known
    end = len(table)
    while end > 1 and table[end - 1] == table[end - 2]:
        end -= 1
    torch = importlib.import_module("torch")
    return torch.tensor(table[:end], dtype=torch.float64).numpy()


def rate_at(table: Value, step: Value) -> Value:
    """Return the element of a table for a step, a float64 number; the last one behind its end."""
    last = float(int(table.shape[0]) - 1)
    return ops.gather(table, ops.cast(ops.minimum(step, last), dtype="int64"), axis=0)


def _is_settled(known: list[float], is_product: bool) -> bool:
    """Return True if the second half of the factors is one number, which is 1 for factors of the rate before."""
    return len({*known[len(known) // 2 :]}) == 1 and (not is_product or known[-1] == 1.0)


def _stays(last: float, at: Callable[[range], list[float]], count: int) -> bool:
    """Return True if probes of later steps, up to the last one that is evaluated, have the same factor."""
    return all(at(range(step, step + 1)) == [last] for step in range(count, MAX_STEPS, FIRST_STEPS - 1))
