"""The properties of the reference engine that planning depends on: scratch, and in-place pairs of its kernels."""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto import Attribute, TensorType
from prograd_proto.blocks import BlockAnalysis
from runtime.engines.reference.kernels import KERNELS
from runtime.step.target import Pair, Target


def _in_place(op_type: str) -> Sequence[Pair]:
    return KERNELS[op_type].in_place if op_type in KERNELS else ()


def _scratch(
    op_type: str, inputs: Sequence[TensorType | None], attributes: dict[str, Attribute]
) -> tuple[TensorType, ...]:
    return KERNELS[op_type].scratch(inputs, attributes)


def _control_scratch(
    op_type: str,
    inputs: Sequence[TensorType | None],
    attributes: dict[str, Attribute],
    blocks: Sequence[BlockAnalysis],
) -> tuple[TensorType, ...]:
    from runtime.engines.reference.control import scratch_of_control  # few programs need it

    return scratch_of_control(REFERENCE, op_type, inputs, attributes, blocks)


REFERENCE = Target(_in_place, _scratch, _control_scratch)
