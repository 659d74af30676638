"""Two calls of a module with its examples, which show effects that torch.export has not seen.

The first call shows the tensors that the module changes. The second call begins with the same tensors and draws the
same random numbers, so its results differ only if forward keeps something in Python between calls, such as a flag, a
list or the state of another generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.torch.assignments import remembered
from compiler.frontends.torch.messages import reason_of
from compiler.frontends.torch.nodes import written
from compiler.frontends.torch.operators import control

SEED: Final = 0
"""Seed of the random numbers of both calls."""

TOLERANCE: Final = {"torch.float64": 1e-10, "torch.float32": 1e-5}
"""The relative tolerance of each dtype for sums in another order; 0.001 for all other dtypes."""


def require_same_changes(torch: Any, module: Any, args: Any, keywords: Any, graph: Any) -> None:
    """Call a module twice with its examples, and leave it as it was.

    Raises CompileError if the module cannot be called, if a call changes a tensor that the graph does not write, or if
    the second call returns other results than the first.
    """
    plain = {child: dict(child.__dict__) for child in module.modules()}
    args, keywords = torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.clone(), (args, keywords))
    with kept_tensors(torch, module, graph) as tensors:
        try:
            first = results_of(torch, lambda: module(*args, **keywords))
            require_known_changes(torch, module, tensors.changed(), graph)
            tensors.restore()
            changed = [f"{type(child).__name__}.{key}" for child, old in plain.items() for key in _changed(child, old)]
            second = results_of(torch, lambda: module(*args, **keywords))
        except CompileError:
            raise
        except Exception as error:  # of any class
            raise CompileError(
                f"from_torch: the module cannot be called with the examples of inputs=: {reason_of(error)}; give "
                "examples that it accepts"
            ) from error
    if not all(is_close(torch, one, other) for one, other in zip(first, second, strict=True)):
        what = f"forward changes {', '.join(changed)}" if changed else "forward draws numbers, or remembers, in Python"
        raise CompileError(
            f"from_torch: two calls of the module with the same tensors and random numbers differ: {what}, which no "
            "program sees; keep tensors in buffers, and draw by torch.rand"
        )


class _Tensors:
    """The parameters and buffers of a module as they were; parameters are copied before their first write."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch, self._module = torch, module
        self._held = {child: (dict(child._parameters), dict(child._buffers)) for child in module.modules()}
        self._tensors = _named(module)
        self._saved = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
        self._places = {_place(tensor): name for name, tensor in module.named_parameters()}

    def copy_all(self) -> None:
        """Keep the elements of all parameters."""
        for parameter in self._module.parameters():
            self.written(parameter)

    def written(self, tensor: Any) -> None:
        """Keep the elements of a parameter that is about to be written."""
        name = self._places.get(_place(tensor))
        if name is not None and name not in self._saved:
            self._saved[name] = self._tensors[name].detach().clone()

    def changed(self) -> list[str]:
        """Return the names of the tensors with other elements than at first."""
        now = _named(self._module)
        replaced = [name for name, tensor in self._tensors.items() if now.get(name) is not tensor]
        names = dict.fromkeys([*self._saved, *replaced])
        first = {**self._tensors, **self._saved}
        return [name for name in names if not _is_same(self._torch, now.get(name), first[name])]

    def restore(self) -> None:
        """Give the module its tensors back, with their elements."""
        for child, (parameters, buffers) in self._held.items():
            child._parameters.update(parameters)
            child._buffers.update(buffers)
        with self._torch.no_grad():
            for name, old in self._saved.items():
                if not _is_same(self._torch, self._tensors[name], old):
                    self._tensors[name].copy_(old)


@contextmanager
def kept_tensors(torch: Any, module: Any, graph: Any) -> Generator[_Tensors]:
    """Yield the tensors of a module; at the end, give them and the plain attributes back.

    PyTorch compiles operators of control flow, which it cannot while writes are watched; then all tensors are copied.
    """
    tensors, forget = _Tensors(torch, module), remembered(module)
    is_watched = not any(str(node.target) in control.OPERATORS for node in graph.graph.nodes)

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        """Tells of each write of an operator before it runs."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            for given in written(func, args, kwargs or {}):
                for x in given if isinstance(given, list | tuple) else [given]:
                    if hasattr(x, "data_ptr"):
                        tensors.written(x)
            return func(*args, **(kwargs or {}))

    try:
        if not is_watched:
            tensors.copy_all()
        with Watch() if is_watched else nullcontext():
            yield tensors
    finally:
        tensors.restore()
        forget()


def results_of(torch: Any, call: Callable[[], Any]) -> list[Any]:
    """Return copies of the tensors that a call returns."""
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(SEED)
        leaves = torch.utils._pytree.tree_leaves(call())
        return [x.detach().clone() for x in leaves if isinstance(x, torch.Tensor)]


def require_known_changes(torch: Any, module: Any, changed: Sequence[str], graph: Any) -> None:
    """Raise CompileError if one of the changed tensors is not among those that the graph writes."""
    known = {spec.target for spec in graph.graph_signature.output_specs if spec.kind.name.endswith("MUTATION")}
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


def _changed(child: Any, before: Mapping[str, Any]) -> list[str]:
    """Return the names of the plain attributes that are other objects than before."""
    return [key for key in {**before, **child.__dict__} if child.__dict__.get(key) is not before.get(key)]


def _named(module: Any) -> dict[str, Any]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _place(tensor: Any) -> int:
    """Return the address of the storage of a tensor, which its views share."""
    return tensor.untyped_storage().data_ptr()


def _is_same(torch: Any, one: Any, other: Any) -> bool:
    """Return True if two tensors have equal elements; NaN equals NaN here."""
    if one is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def is_close(torch: Any, one: Any, other: Any) -> bool:
    """Return True if two results differ by less than sums in another order may."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return bool(torch.equal(one, other))
    scale = one[one.isfinite()].abs().max().item() if bool(one.isfinite().any()) else 0.0
    tolerance = TOLERANCE.get(str(one.dtype), 1e-3)
    return torch.allclose(one, other, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
