"""Hooks of gradients, which torch.export drops: those of parameters, of modules, and of tensors in forward."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from compiler.errors import CompileError

REGISTERING: Final = ("register_hook", "register_post_accumulate_grad_hook")
"""Methods of a tensor that register a hook of its gradient."""


@contextmanager
def noted_hooks(torch: Any, found: list[str]) -> Generator[None]:
    """Add to `found` the hooks that forward registers for gradients of tensors, with their lines."""
    before = {name: getattr(torch.Tensor, name) for name in REGISTERING}

    def noting(name: str) -> Any:
        def register(tensor: Any, hook: Any) -> Any:
            place = _line_of_user(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]: cheaper than inspect
            if place and torch.is_grad_enabled() and tensor.requires_grad:
                found.append(f"{name} ({place})")
            return before[name](tensor, hook)

        return register

    for name in REGISTERING:
        setattr(torch.Tensor, name, noting(name))
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(torch.Tensor, name, method)


def _line_of_user(frame: Any) -> str:
    """Return file and line of a call; "" if PyTorch itself calls."""
    if str(frame.f_globals.get("__name__", "")).partition(".")[0] == "torch":
        return ""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def hooks_of(module: Any) -> list[str]:
    """Return the hooks of gradients that a module and its parameters have, by the names of these."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    found = [
        f"{name}.{method} ({_place(hook)})"
        for name, parameter in trained.items()
        for method, hooks in zip(
            REGISTERING, (parameter._backward_hooks, parameter._post_accumulate_grad_hooks), strict=True
        )
        for hook in (hooks or {}).values()
    ]
    if not trained:
        return found
    return found + [
        f"a backward hook of {name or type(child).__name__} ({_place(hook)})"
        for name, child in module.named_modules()
        for hook in (*child._backward_hooks.values(), *child._backward_pre_hooks.values())
    ]


def _place(hook: Any) -> str:
    code = getattr(hook, "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else type(hook).__name__


def require_no_hooks(found: list[str]) -> None:
    """Raise CompileError if there are hooks, whose changes of gradients would be lost."""
    if found:
        raise CompileError(
            f"from_torch: torch.export drops hooks of gradients: {', '.join(dict.fromkeys(found))}; remove them, write "
            "the change with operators of PyTorch or with clip= of program.minimize, or call "
            "module.requires_grad_(False) for a program that only predicts"
        )


def require_optimizer(optimizer: Any) -> None:
    """Raise CompileError for what is no optimizer of PyTorch, or calls Python before or after each step."""
    everywhere = import_module("torch.optim.optimizer")
    if not isinstance(optimizer, everywhere.Optimizer):
        raise CompileError(
            f"from_torch: optimizer={optimizer!r} is not of torch.optim; an optimizer of prograd minimizes a result, "
            "as in program.minimize(program['loss'], prograd.adam())"
        )
    hooks = [
        *optimizer._optimizer_step_pre_hooks.values(),
        *optimizer._optimizer_step_post_hooks.values(),
        *everywhere._global_optimizer_pre_hooks.values(),
        *everywhere._global_optimizer_post_hooks.values(),
    ]
    if hooks:
        raise CompileError(
            f"optimizer: a hook ({_place(hooks[0])}) calls Python at each step, which no program can; remove it, and "
            "clip gradients by clip= of program.minimize"
        )
