"""Losses that the table of losses lacks: exported with the module, with an example of the target among its inputs."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.torch.training.losses import TARGET

LOSS: Final = "loss"
"""Name of the result."""


def inside(module: Any, inputs: Mapping[str, Any], loss: Any) -> tuple[bool, dict[str, Any]]:
    """Return True for a loss that is exported with the module, whose inputs have a target that forward does not take.

    The inputs are returned with the target at the end.
    """
    if loss is None or TARGET not in inputs or TARGET in inspect.signature(module.forward).parameters:
        return False, dict(inputs)
    rest = {name: tensor for name, tensor in inputs.items() if name != TARGET}
    return True, rest | {TARGET: inputs[TARGET]}


def loss_of(loss: Any, is_inside: bool) -> Any:
    """Return the name of the result that is the loss, or a loss that is appended."""
    return LOSS if is_inside else loss


@contextmanager
def with_loss(torch: Any, module: Any, loss: Any, is_inside: bool) -> Generator[None]:
    """Let the forward of a module take a target as well, and return its loss beside the results, if that is inside.

    Raises CompileError for a loss that is no function, or has parameters.
    """
    if not is_inside:
        yield
        return
    before = module.__dict__.get("forward")
    module.forward = _both(torch, module.forward, loss)
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before


def _both(torch: Any, forward: Any, loss: Any) -> Any:
    """Return the function of the arguments of forward and a target that returns the results with the loss."""
    signature = inspect.signature(forward)
    _require_loss(torch, loss, signature)

    def both(*args: Any, **keywords: Any) -> dict[str, Any]:
        target = keywords.pop(TARGET)
        result = forward(*args, **keywords)
        made = loss(result, target)
        if not isinstance(made, torch.Tensor) or made.ndim:
            told = f"a tensor {list(made.shape)}" if isinstance(made, torch.Tensor) else type(made).__name__
            raise CompileError(
                f"from_torch: the loss {type(loss).__name__} returns {told}, and training needs a number"
            )
        if isinstance(result, Mapping):
            return {**result, LOSS: made}
        if isinstance(result, list | tuple):
            return {**{f"output{i}": each for i, each in enumerate(result)}, LOSS: made}
        return {"output": result, LOSS: made}

    parameters = list(signature.parameters.values())
    at = next((i for i, each in enumerate(parameters) if each.kind.name == "VAR_KEYWORD"), len(parameters))
    parameters.insert(at, inspect.Parameter(TARGET, inspect.Parameter.KEYWORD_ONLY))
    both.__signature__ = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)  # type: ignore[attr-defined]
    return both


def _require_loss(torch: Any, loss: Any, signature: inspect.Signature) -> None:
    if isinstance(loss, torch.nn.Module) and any(True for _ in loss.parameters()):
        raise CompileError(
            f"from_torch: the loss {type(loss).__name__} has parameters of its own; call it inside the module"
        )
    if not callable(loss):
        raise CompileError(f"from_torch: loss={loss!r} is no function of the module's result and a target")
    if any(each.kind.name == "VAR_POSITIONAL" for each in signature.parameters.values()):
        raise CompileError("from_torch: forward(*args) takes no target by name; give its arguments names")
