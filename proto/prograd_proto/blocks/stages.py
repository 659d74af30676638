"""Forward or backward: the pass that an op belongs to, by its stage."""

from __future__ import annotations

from typing import Final

from prograd_proto import program_pb2 as pb

BACKWARD: Final = (pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE)
"""The stages that make gradients."""


def pass_of(stage: pb.Stage) -> pb.Lifespan:
    """Return the pass that an op of that stage belongs to; without a stage it is of the forward pass."""
    return pb.LIFESPAN_FORWARD if stage <= pb.STAGE_FORWARD else pb.LIFESPAN_BACKWARD
