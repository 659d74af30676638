"""The pass of an op, forward or backward, by its stage."""

from __future__ import annotations

from typing import Final

from prograd_proto import program_pb2 as pb

BACKWARD: Final = (pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE)
"""The stages of ops that compute gradients."""


def pass_of(stage: pb.Stage) -> pb.Lifespan:
    """Return the pass of an op of that stage; an op without a stage belongs to the forward pass."""
    return pb.LIFESPAN_FORWARD if stage <= pb.STAGE_FORWARD else pb.LIFESPAN_BACKWARD
