"""Assignments of forward to its module: those of buffers become writes, which torch.export sees.

torch.export keeps the first value of a buffer that a submodule assigns, as in `self.codes = codes`, and takes numbers
of Python for constants.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, Final

from compiler.errors import CompileError


@contextmanager
def written_buffers(torch: Any, module: Any) -> Generator[Callable[[], None]]:
    """Write the buffers that a call of a module assigned at the end of each call; undo other assignments.

    Yields a function that forgets them at once, so that the next call begins as the first did.

    Raises CompileError, while the module is called, for a number or a tensor of a module that forward replaces and that
    is no buffer.
    """
    children = dict(module.named_modules())
    outside = {name: dict(child.__dict__) for name, child in children.items()}
    inside: dict[str, dict[str, Any]] = {}

    def before_call(*operands: Any) -> None:
        inside.update({name: dict(child._buffers) for name, child in children.items()})

    def after_call(called: Any, args: Any, result: Any) -> Any:
        for name, child in children.items():
            _require_buffers(torch, name, child, outside[name])
        assigned = [
            (child, key, old, child._buffers[key])
            for name, child in children.items()
            for key, old in inside[name].items()
            if old is not None and child._buffers.get(key) is not old
        ]
        if not assigned:
            return result
        kept = torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.clone(), result)
        news = [None if new is None else new.clone() for *_, new in assigned]
        for (child, key, old, _), new in zip(assigned, news, strict=True):
            _write(f"{type(child).__name__}.{key}", old, new)
            child._buffers[key] = old
        return kept

    handles = [module.register_forward_pre_hook(before_call), module.register_forward_hook(after_call)]
    forget = remembered(module)
    try:
        yield forget
    finally:
        forget()  # which knows the hooks, so they are removed behind it
        for handle in handles:
            handle.remove()


def _write(name: str, old: Any, new: Any) -> None:
    if new is None or new.shape != old.shape or new.dtype != old.dtype:
        told = "nothing" if new is None else f"{new.dtype} {tuple(new.shape)}".removeprefix("torch.")
        raise CompileError(
            f"forward assigns {told} to the buffer {name}, which is {str(old.dtype).removeprefix('torch.')} "
            f"{tuple(old.shape)}; a state keeps its type: if only the first call makes the buffer, call the module "
            "once before the import"
        )
    old.copy_(new.detach())


def _require_buffers(torch: Any, name: str, child: Any, before: Mapping[str, Any]) -> None:
    """Raise CompileError if forward replaced a number or a tensor that is an attribute of a module."""
    for key, old in before.items():
        new = child.__dict__.get(key)
        if new is old or isinstance(old, bool):
            continue
        is_tensor = isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor)
        is_number = isinstance(old, int | float) and isinstance(new, int | float) and old != new
        if is_tensor or is_number:
            what = "tensor" if is_tensor else "number"
            raise CompileError(
                f"forward assigns the {what} {name}{'.' if name else ''}{key}, which the program would keep at its "
                f"first value; register it by register_buffer"
            )


def remembered(module: Any) -> Callable[[], None]:
    """Return a function that restores the plain attributes that a module has now, and removes later ones.

    Lists, dicts and sets among them get their elements back.
    """
    held = {child: dict(child.__dict__) for child in module.modules()}
    contents = [
        (value, copy(value))
        for attributes in held.values()
        for key, value in attributes.items()
        if isinstance(value, list | dict | set) and key not in _OF_EVERY_MODULE
    ]

    def restore() -> None:
        for child, attributes in held.items():
            for key in child.__dict__.keys() - attributes.keys():
                del child.__dict__[key]
            child.__dict__.update(attributes)
        for value, elements in contents:
            value.clear()
            (value.extend if isinstance(value, list) else value.update)(elements)

    return restore


_OF_EVERY_MODULE: Final = {"_parameters", "_buffers", "_modules"}
"""Attributes of each module of PyTorch whose elements are tensors and modules."""
