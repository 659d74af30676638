"""Moves between the arena and the file beside it, for a memory budget (`compiler plan --spill`)."""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.value import Value


@op
def spill(x: Value) -> TensorType:
    """Return the tensor in the file beside the arena, where it takes no memory; reload brings it back."""
    ...


@spill.gradient
def spill_gradient(dy: Value) -> Value:
    return dy


@op
def reload(x: Value) -> TensorType:
    """Return a spilled tensor in the arena; the read starts as soon as its buffer is free."""
    ...


@reload.gradient
def reload_gradient(dy: Value) -> Value:
    return dy
