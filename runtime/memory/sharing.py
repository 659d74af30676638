"""Which outputs of an op a kernel may write over which of its inputs."""

from __future__ import annotations

from runtime.kernels import KERNELS


def in_place_pairs(op_type: str) -> tuple[tuple[int, int], ...]:
    """(output, input) positions that the reference kernel allows to be the same memory; none for an unknown op."""
    return KERNELS[op_type].in_place if op_type in KERNELS else ()
