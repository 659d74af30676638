"""Assignments of forward to its module: those of buffers become writes, which torch.export sees.

torch.export keeps the first value of a buffer that a submodule assigns, as in `self.codes = codes`, and takes numbers
of Python for constants.
"""

# pyright: basic
# PyTorch is imported by name and has no types here.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from compiler.errors import CompileError


@contextmanager
def written_buffers(torch: Any, module: Any) -> Iterator[None]:
    """Let each call of a module end with writes of the buffers that it assigned; forget other assignments at the end.

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
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for name, child in children.items():
            _restore(child, outside[name])


def require_same_changes(torch: Any, module: Any, args: Any, keywords: Any, graph: Any) -> None:
    """Call a module once with its examples; raise CompileError if that changes a tensor that its graph does not write.

    A module that cannot be called with numbers, as on another device, is left unchecked. The module is as before.
    """
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    known = {spec.target for spec in graph.graph_signature.output_specs if spec.kind.name.endswith("MUTATION")}
    before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    outside = {child: dict(child.__dict__) for child in module.modules()}
    held = {child: (dict(child._parameters), dict(child._buffers)) for child in outside}
    args, keywords = torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.clone(), (args, keywords))
    changed: list[str] = []
    try:
        with torch.no_grad(), torch.random.fork_rng():
            module(*args, **keywords)
            after = {**dict(module.named_parameters()), **dict(module.named_buffers())}
            changed = [name for name in before if not _is_same(after.get(name), before[name])]
    except Exception:  # of any class; torch.export could call it, with fake tensors
        changed = []
    finally:
        for child, (parameters, buffers) in held.items():
            child._parameters.update(parameters)
            child._buffers.update(buffers)
            _restore(child, outside[child])
        with torch.no_grad():
            for name, tensor in tensors.items():
                if not _is_same(tensor, before[name]):
                    tensor.copy_(before[name])
    refused = torch.nn.modules.instancenorm._InstanceNorm  # by its operator, in a sentence of its own
    unknown = [
        name
        for name in changed
        if name not in known
        and not name.endswith("num_batches_tracked")
        and not isinstance(module.get_submodule(name.rpartition(".")[0]), refused)
    ]
    if unknown:
        raise CompileError(
            f"from_torch: a call of the module changes {', '.join(unknown)}, and torch.export does not see it; write "
            "the tensor by an operator in place, as in self.buffer.copy_(x)"
        )


def _is_same(one: Any, other: Any) -> bool:
    """Return True if two tensors have equal elements; those that are no numbers are equal."""
    if one is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _write(name: str, old: Any, new: Any) -> None:
    if new is None or new.shape != old.shape or new.dtype != old.dtype:
        told = "nothing" if new is None else f"{new.dtype} {tuple(new.shape)}".removeprefix("torch.")
        raise CompileError(
            f"forward assigns {told} to the buffer {name}, which is {str(old.dtype).removeprefix('torch.')} "
            f"{tuple(old.shape)}; a state keeps its type"
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


def _restore(child: Any, before: Mapping[str, Any]) -> None:
    """Give a module the plain attributes back that it had, and no others."""
    for key in child.__dict__.keys() - before.keys():
        del child.__dict__[key]
    for key, value in before.items():
        if not isinstance(value, dict):
            child.__dict__[key] = value
