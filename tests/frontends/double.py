"""Modules in float64 throughout: some cast to float32 inside, as norms and rotary positions of transformers do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class DoubleThroughout(TorchFunctionMode):
    """Calls of PyTorch ask for float64 wherever they ask for float32.

    `hardsigmoid` is written out: its gradient in PyTorch 2.13 is 1 / 6 rounded to float32, for float64 too.
    """

    def __torch_function__(
        self, function: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), more: Any = None
    ) -> Any:
        if function is functional.hardsigmoid:
            return functional.relu6(args[0] + 3) / 6
        function = torch.Tensor.double if function is torch.Tensor.float else function
        return function(*map(_doubled, args), **{key: _doubled(x) for key, x in (more or {}).items()})


def _doubled(x: Any) -> Any:
    return torch.float64 if x is torch.float32 else x
