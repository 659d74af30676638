"""Functions with gradients of their own (torch.autograd.Function), whose gradients torch.export drops."""

from __future__ import annotations

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from compiler.errors import CompileError

EQUAL: Final = {"transformers.models.bloom.modeling_bloom.GeLUFunction"}
"""Functions that are accepted, because the gradient that they define is that of their forward pass."""

OF_CONTROL_FLOW: Final = "torch._higher_order_ops."
"""Modules of PyTorch whose functions compute torch.cond, scan and others, which the graph keeps whole."""


@contextmanager
def noted_functions(torch: Any, found: set[type]) -> Generator[None]:
    """Add to `found` the classes of functions that are applied to tensors with gradients.

    Reentrant checkpoints of activations are among them: their forward pass records no gradients.
    """
    before = torch.autograd.Function.__dict__["apply"]

    def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        is_equal = cls.__module__.startswith(OF_CONTROL_FLOW) or f"{cls.__module__}.{cls.__qualname__}" in EQUAL
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors) and not is_equal:
            found.add(cls)
        return before.__get__(None, cls)(*args, **kwargs)

    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        torch.autograd.Function.apply = before


def require_no_own_gradients(found: set[type]) -> None:
    """Raise CompileError if there are functions whose gradients are lost."""
    if found:
        names = ", ".join(sorted(map(_name_and_line, found)))
        raise CompileError(
            "from_torch: torch.export drops the gradients that functions of torch.autograd define themselves: "
            f"{names}; write them with operators of PyTorch, or call module.requires_grad_(False) for a program that "
            "only predicts"
        )


def _name_and_line(cls: type) -> str:
    try:
        path, line = inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):  # made in an interactive session
        return cls.__qualname__
    return f"{cls.__qualname__} ({Path(path or '').name}:{line})"
