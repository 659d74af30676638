"""Sums, products, means, extremes and truths along axes."""

from __future__ import annotations

from runtime.codegen.ir import INT64, Type, Value
from runtime.codegen.kernels.reduction import ALL as EVERY
from runtime.codegen.kernels.reduction import ANY, LARGEST, LEAST, PRODUCT, SUM
from runtime.codegen.rules.form import ALL, FLOATS, FORMS, Reduction


def wide_if_whole(element: Type) -> Type:
    """Floats as they are, whole numbers and truths as int64."""
    return element if element.is_float else INT64


def mean_of(total: Value, count: int) -> Value:
    """The mean of a sum."""
    return total / float(count)


TRUTHS = frozenset({"bool"})

FORMS["sum"] = Reduction(SUM, ALL, joined_as=wide_if_whole)
FORMS["mean"] = Reduction(SUM, FLOATS, mean_of)
FORMS["prod"] = Reduction(PRODUCT, ALL, joined_as=wide_if_whole)
FORMS["max"] = Reduction(LARGEST, ALL)
FORMS["min"] = Reduction(LEAST, ALL)
FORMS["all"] = Reduction(EVERY, TRUTHS)
FORMS["any"] = Reduction(ANY, TRUTHS)
