"""The properties of the reference engine that planning depends on: scratch, and in-place pairs of its kernels."""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto import Attribute, TensorType
from runtime.engines.reference.kernels import KERNELS
from runtime.step.target import Pair, Target


def _in_place(op_type: str) -> Sequence[Pair]:
    return KERNELS[op_type].in_place if op_type in KERNELS else ()


def _scratch(
    op_type: str, inputs: Sequence[TensorType | None], attributes: dict[str, Attribute]
) -> tuple[TensorType, ...]:
    return KERNELS[op_type].scratch(inputs, attributes)


REFERENCE = Target(_in_place, _scratch)
