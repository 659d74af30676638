"""Sums, products, means, extremes and logical reductions along axes."""

from __future__ import annotations

from runtime.codegen.ir import INT64, Type, Value
from runtime.codegen.kernels.reduction import ALL as EVERY
from runtime.codegen.kernels.reduction import ANY, LARGEST, PRODUCT, SMALLEST, SUM
from runtime.codegen.rules.rule import COMPUTED_DTYPES, FLOAT_DTYPES, RULES, Moment, Reduction


def wide_if_whole(element: Type) -> Type:
    """Return the type of an accumulator: floats as they are, int64 for integers and bool."""
    return element if element.is_float else INT64


def mean_of(total: Value, count: int) -> Value:
    """Return the mean from a sum."""
    return total / float(count)


MEAN_OF_BATCH = Moment(SUM, FLOAT_DTYPES)
VARIANCE_OF_BATCH = Moment(SUM, FLOAT_DTYPES, is_variance=True)
"""Moments that one pass computes; see `kernels.moments`."""

TRUTHS = frozenset({"bool"})

RULES["sum"] = Reduction(SUM, COMPUTED_DTYPES, accumulator_type=wide_if_whole)
RULES["mean"] = Reduction(SUM, FLOAT_DTYPES, mean_of)
RULES["prod"] = Reduction(PRODUCT, COMPUTED_DTYPES, accumulator_type=wide_if_whole)
RULES["max"] = Reduction(LARGEST, COMPUTED_DTYPES)
RULES["min"] = Reduction(SMALLEST, COMPUTED_DTYPES)
RULES["all"] = Reduction(EVERY, TRUTHS)
RULES["any"] = Reduction(ANY, TRUTHS)
