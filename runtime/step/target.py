"""The properties of an engine that planning a step depends on; everything else is the same for all engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prograd_proto import Attribute, TensorType
from prograd_proto.blocks import BlockAnalysis

Pair = tuple[int, int]
Scratch = Callable[[str, Sequence[TensorType | None], dict[str, Attribute]], tuple[TensorType, ...]]
ControlScratch = Callable[
    [str, Sequence[TensorType | None], dict[str, Attribute], Sequence[BlockAnalysis]], tuple[TensorType, ...]
]


class Target(NamedTuple):
    """The memory-related properties of an engine.

    Attributes:
        in_place: by op type, the (output, input) positions that its kernel allows to share memory.
        scratch: by op type, input types and attributes, the arrays that its kernel may overwrite while the op runs.
        control_scratch: the same for an op that runs blocks, given these as well.
    """

    in_place: Callable[[str], Sequence[Pair]]
    scratch: Scratch
    control_scratch: ControlScratch
