"""Between the arena and the file beside it; the bytes are copied, and the executor decides when."""

from __future__ import annotations

import numpy as np

from prograd_proto import TensorType
from runtime.kernel import Array, Types, kernel, types


def _same_rule(x: TensorType) -> Types:
    return types(x)


@kernel(_same_rule, halves=True, file="to")
def spill(x: Array, *, out: Array) -> None:
    np.copyto(out, x)


@kernel(_same_rule, halves=True, file="from")
def reload(x: Array, *, out: Array) -> None:
    np.copyto(out, x)
