"""A row of the census: a network in float32 and float64 beside its module."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any, Final

import torch

from compiler.errors import CompileError
from frontends.agreement import Agreement, agreement, results
from frontends.double import DoubleThroughout
from frontends.networks import network
from frontends.steps import OPTIMIZERS, differences
from frontends.torchvision_without_operators import torchvision

torchvision()  # timm and transformers import it
import timm  # noqa: E402, F401 - so that every network has it
import transformers  # noqa: E402, F401

MEASURED: Final = ("outputs", "loss", "gradients", "statistics")


def measured(name: str, *, has_steps: bool) -> dict[str, Any]:
    """Return the differences of a network by dtype, or the error that ended its comparison."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    which, _, size = name.partition("@")
    row: dict[str, Any] = {"name": name}
    try:
        module, inputs = network(which, size=int(size or 64))
        if has_steps:
            row["float32"] = _differences(module, inputs, has_steps=True)
        inputs = {key: x.double() if x.is_floating_point() else x for key, x in inputs.items()}
        try:
            with DoubleThroughout():
                row["float64"] = _differences(module.double(), inputs, has_steps=has_steps)
        except CompileError:  # some modules compare dtypes with float32
            row["float64"] = _differences(module.double(), inputs, has_steps=has_steps)
    except Exception as error:  # a row says why
        row["error"] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return row


def _differences(module: Any, inputs: Any, *, has_steps: bool) -> dict[str, float]:
    mode = module.training
    with torch.no_grad():
        results(module.eval(), inputs)  # some modules make buffers at their first call
    module.train(mode)
    found: Agreement = agreement(module, inputs, engine="reference")
    numbers = {name: float(getattr(found, name)) for name in MEASURED}
    after: Callable[[str], float] = lambda name: differences(module, inputs, name, engine="reference")  # noqa: E731
    return numbers | ({name: after(name) for name in OPTIMIZERS} if has_steps else {})
