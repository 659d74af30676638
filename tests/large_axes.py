"""Find extremes behind 2^31 elements by the native engine; it takes 5 GiB of memory and half a minute.

python tests/large_axes.py
"""

from __future__ import annotations

import sys

import numpy as np

import runtime
from compiler import Program, ops

EXTENT = 2**31 + 77


def main() -> int:
    """Return 0 if the indices of the extremes are right; raise AssertionError if not."""
    program = Program()
    x = program.input("x", "uint8", (EXTENT,))
    program.outputs(largest=ops.argmax(x, axis=0), smallest=ops.argmin(x, axis=0))
    run = runtime.Run(program.compile().desc, engine="native")
    numbers = np.ones(EXTENT, "uint8")
    numbers[2**31 + 10], numbers[2**31 + 11] = 2, 0
    found = run.step({"x": numbers}, entry="predict")
    assert int(found["largest"]) == 2**31 + 10, found
    assert int(found["smallest"]) == 2**31 + 11, found
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
