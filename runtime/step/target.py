"""What planning a step must know of the engine that will run it; everything else is the same for all engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prograd_proto import Attribute, TensorType

Pair = tuple[int, int]
Scratch = Callable[[str, Sequence[TensorType | None], dict[str, Attribute]], tuple[TensorType, ...]]


class Target(NamedTuple):
    """An engine as far as memory is concerned.

    Attributes:
        in_place: by op type, the (output, input) positions that its kernel allows to be the same memory.
        scratch: by op type, input types and attributes, what its kernel may overwrite while the op runs.
    """

    in_place: Callable[[str], Sequence[Pair]]
    scratch: Scratch
