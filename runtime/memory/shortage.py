"""Memory that Python or NumPy cannot have: the sentence about it, and a ResourceLimit in place of their errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from prograd_proto.byte_sizes import in_units
from runtime.errors import ResourceLimit

P = ParamSpec("P")
R = TypeVar("R")

_TOO_BIG: Final = ("array is too big", "Maximum allowed dimension exceeded")
"""Starts of the ValueErrors that NumPy raises for arrays beyond the addresses of the machine."""


def shortage(error: BaseException) -> str:
    """Return a sentence about memory that is not there, with the array that NumPy asked for if the error has it."""
    shape: Any = getattr(error, "shape", None)
    dtype: Any = getattr(error, "dtype", None)
    if shape is None or dtype is None:
        return "there is not enough memory"
    extents = ", ".join(map(str, shape))
    return f"there is not enough memory for {dtype.name}[{extents}], {in_units(math.prod(shape) * dtype.itemsize)}"


def limited_by_memory(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a call of the library, so that it raises ResourceLimit where Python or NumPy cannot have memory."""

    @wraps(call)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except MemoryError as error:
            raise ResourceLimit(f"{call.__name__}: {shortage(error)}; give fewer rows at a time") from None
        except ValueError as error:
            if not str(error).startswith(_TOO_BIG):
                raise
            raise ResourceLimit(f"{call.__name__}: an array has more bytes than addresses; give fewer rows") from None

    return limited
