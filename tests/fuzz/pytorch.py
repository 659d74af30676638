"""The judge that is PyTorch: the same recipe with its functions and its gradients, values and all orders compared.

What the table has not, or cannot, is unknown, and so is what depends on it. Random numbers are taken from the program:
dropout's mask is what it makes of ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from fuzz.building import Building
from fuzz.recipe import Step
from fuzz.tape import Tape
from fuzz.torch_ops import TORCH
from fuzz.verdict import Verdict
from prograd_proto import program_pb2 as pb
from runtime.conversion import handed_out

torch.set_num_threads(1)

DRAWN = {
    "uniform",
    "normal",
    "truncated_normal",
    "orthogonal",
    "bernoulli",
    "randint",
    "permutation",
    "categorical",
    "iteration_step",
}
MASKED = {"dropout", "alpha_dropout", "feature_dropout"}
TOLERANCE = {"float64": 1e-9, "float32": 3e-5}
NOISE = {"float64": 1e-15, "float32": 2e-7}


def judge(building: Building) -> list[Verdict]:
    """A verdict for each step that gives tensors."""
    side = Side(building)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of what it will change
        for at, step in enumerate(building.recipe.steps):
            side.follow(at, step)
    return list(side.verdicts())


class Side:
    """PyTorch's tensors by the names of the recipe."""

    def __init__(self, building: Building) -> None:
        self.building = building
        self.tensors: dict[str, torch.Tensor | None] = {}
        self.results: dict[str, torch.Tensor | None] = {}
        self._by_value: dict[str, torch.Tensor] = {}
        self.unknown: dict[str, str] = {}
        self.compared: list[tuple[int, str]] = []
        self.skipped: list[tuple[int, str]] = []
        self._noise: dict[str, float] | None = None

    def follow(self, at: int, step: Step) -> None:
        """Do in PyTorch what the step does."""
        if step.call in ("input", "parameter", "buffer"):
            self._leaf(step.outputs[0])
        elif step.outputs:
            reason = next((self.unknown[name] for name in step.reads() if name in self.unknown), "")
            made, reason = ([], reason) if reason else self._tried(step)
            if reason:
                self.unknown.update(dict.fromkeys(filter(None, step.outputs), reason))
                self.skipped.append((at, reason))
            else:
                self._keep(at, step, made)

    def _tried(self, step: Step) -> tuple[list[Any], str]:
        """The results, or the reason why there are none."""
        try:
            return self._made(step), ""
        except NotImplementedError as error:
            return [], str(error)
        except RuntimeError as error:
            return [], f"{step.call}: PyTorch refuses: {str(error).splitlines()[0][:80]}"

    def _keep(self, at: int, step: Step, made: list[Any]) -> None:
        if len(made) != len(step.outputs):
            raise AssertionError(f"{step.call}: PyTorch gives {len(made)} results, not {len(step.outputs)}")
        given = next((d.results for d in self.building.derivatives if d.step == at), [])
        for i, (name, tensor) in enumerate(zip(step.outputs, made, strict=True)):
            if name:
                self.compared.append((at, name))
                self.results[name] = tensor
                self.tensors[name] = self._known(name, tensor)
            elif given[i] is None and tensor is not None and bool((tensor.abs() > TOLERANCE["float32"]).any()):
                self.compared.append((at, f"none of {len(self.results)}"))
                self.results[self.compared[-1][1]] = tensor

    def _known(self, name: str, tensor: torch.Tensor | None) -> torch.Tensor:
        """The tensor, or the one that it is in the program too: some functions give what they are given."""
        value = self.building.value(name)
        if value.name in self._by_value:
            return self._by_value[value.name]
        if tensor is None:
            tensor = torch.zeros(self.building.array(name).shape, dtype=getattr(torch, value.dtype))
        if any(tensor is other for other in self._by_value.values()):
            tensor = tensor.clone()
        if tensor.is_floating_point() and not tensor.requires_grad:  # what depends on nothing may be differentiated by
            tensor = tensor.clone().requires_grad_()
        self._by_value[value.name] = tensor
        return tensor

    def _leaf(self, name: str) -> None:
        array = handed_out(self.building.array(name))
        array = array.astype(np.float32) if array.dtype == np.float16 else array
        tensor = torch.from_numpy(array).requires_grad_(array.dtype.kind == "f")
        self.tensors[name] = self._by_value[self.building.value(name).name] = tensor

    def _made(self, step: Step) -> list[Any]:
        if step.call in ("gradients", "minimize"):
            return self._gradients(step)
        if step.call in DRAWN:
            return [torch.from_numpy(self.building.array(name).copy()) for name in step.outputs]
        if step.call in MASKED:
            return self._masked(step)
        if step.call not in TORCH:
            raise NotImplementedError(f"{step.call} is not in the table")
        named = {name: self.tensors[tensor] for name, tensor in step.named.items()}
        made = TORCH[step.call](*self._operands(step), **step.attributes, **named)
        return list(made) if isinstance(made, tuple | list) else [made]

    def _operands(self, step: Step) -> list[Any]:
        literal = step.call == "einsum"
        found: list[Any] = [
            x if literal and i == 0 else self.tensors.get(x) if isinstance(x, str) else x
            for i, x in enumerate(step.operands)
        ]
        beside = next((x.dtype for x in found[step.call == "where" :] if isinstance(x, torch.Tensor)), None)
        return [torch.tensor(x, dtype=beside) if isinstance(x, int | float) else x for x in found]

    def _gradients(self, step: Step) -> list[Any]:
        if step.call == "gradients":
            targets, inputs, seeds = step.operands
        else:
            targets, inputs, seeds = step.operands[:1], step.operands[1:], (None,)
        for name in (*targets, *inputs, *(s for s in seeds if s)):
            if name in self.unknown:
                raise NotImplementedError(self.unknown[name])
        leaves = [self.tensors[name] for name in inputs]
        starts = [
            torch.ones_like(self.tensors[t]) if s is None else self.tensors[s]
            for t, s in zip(targets, seeds, strict=True)
        ]
        ends = [(self.tensors[t], s) for t, s in zip(targets, starts, strict=True)]
        ends = [(t, s) for t, s in ends if t.requires_grad]  # type: ignore[union-attr]
        if not ends or not any(x.requires_grad for x in leaves):  # type: ignore[union-attr]
            return [None] * len(leaves)
        wanted = [x for x in leaves if x.requires_grad]  # type: ignore[union-attr]
        grads = torch.autograd.grad(
            [t for t, _ in ends], wanted, [s for _, s in ends], create_graph=True, allow_unused=True
        )
        known = iter(grads)
        return [next(known) if x.requires_grad else None for x in leaves]  # type: ignore[union-attr]

    def _masked(self, step: Step) -> list[Any]:
        """The mask is what the op makes of ones; what PyTorch multiplies by it is its own."""
        block = self.building.program.block.desc
        made = self.building.value(step.outputs[0]).name
        by_name = {name: op for op in block.ops for name in op.outputs}
        op = by_name[made]
        op = op if op.type in ("dropout", "alpha_dropout") else by_name[op.inputs[1]]  # x * dropout(ones)
        ones = pb.OpDesc()
        ones.CopyFrom(op)
        ones.inputs[0], ones.outputs[0] = "ones", "mask"
        for attribute in ones.attributes:
            if attribute.name == "linear":
                attribute.bool_value = True
        tape = Tape()
        for name in ones.inputs[1:]:
            tape.give(name, self.building.tape.arrays[name])
        tape.give("ones", np.ones_like(self.building.tape.arrays[op.inputs[0]]))
        tape.extend([ones])
        mask = torch.from_numpy(tape.arrays["mask"])
        x = self._operands(step)[0]
        if op.type == "alpha_dropout" and not step.attributes.get("linear", False):
            rate, c = step.attributes["ratio"], -1.7580993408473766
            a = ((1 - rate) * (1 + rate * c * c)) ** -0.5
            return [x * mask + ((mask == 0).to(x.dtype) * (c * a) - a * c * rate)]
        return [x * mask]

    def verdicts(self) -> Iterator[Verdict]:
        """Outcome of all comparisons."""
        for at, reason in self.skipped:
            yield Verdict("skipped", "torch", f"step {at}", reason)
        for at, name in self.compared:
            yield self._compared(at, name)

    def _compared(self, at: int, name: str) -> Verdict:
        what = f"step {at}, {self.building.recipe.steps[at].call}: {name}"
        tensor = self.results[name]
        if name.startswith("none of "):
            return Verdict("differs", "torch", what, f"no gradient, PyTorch has {tensor}")
        found = handed_out(self.building.array(name))
        wanted = np.zeros_like(found) if tensor is None else tensor.numpy(force=True)
        if found.dtype == np.float16:
            found = found.astype(np.float32)
        if found.dtype != wanted.dtype or found.shape != wanted.shape:
            return Verdict(
                "differs",
                "torch",
                what,
                f"{found.dtype}{list(found.shape)}, PyTorch {wanted.dtype}{list(wanted.shape)}",
            )
        if found.dtype.kind != "f":
            same = np.array_equal(found, wanted)
            if not same and self._unsure(name) > 0:
                return Verdict("skipped", "torch", what, "whole numbers that depend on last digits")
            return Verdict("agreed" if same else "differs", "torch", what, "" if same else f"{found}, PyTorch {wanted}")
        return self._floats(at, what, name, found, wanted)

    def _floats(self, at: int, what: str, name: str, found: np.ndarray, wanted: np.ndarray) -> Verdict:
        finite = np.isfinite(wanted) & np.isfinite(found)
        same = np.array_equal(np.where(finite, 0.0, found), np.where(finite, 0.0, wanted), equal_nan=True)
        off = float(np.max(np.abs(np.where(finite, found, 0.0) - np.where(finite, wanted, 0.0)), initial=0.0))
        scale = max(1.0, float(np.max(np.abs(wanted), where=finite, initial=0.0)))
        narrow = "float32" if self._narrow() else "float64"
        if same and off <= TOLERANCE[narrow] * scale:
            return Verdict("agreed", "torch", what)
        if self._of_gradients(at) and np.all(np.isfinite(found)) and not np.all(np.isfinite(wanted)):
            return Verdict("skipped", "torch", what, "a gradient where PyTorch has no number: a root or a norm at 0")
        unsure = self._unsure(name)
        if not np.isfinite(unsure) or (same and off <= 30 * unsure):
            word = "ill-conditioned" if unsure > 1e-3 * scale else "agrees within what last digits make of it"
            return Verdict("skipped", "torch", what, word)
        return Verdict(
            "differs", "torch", what, f"off by {off:.3g}: {found.reshape(-1)[:8]}, PyTorch {wanted.reshape(-1)[:8]}"
        )

    def _of_gradients(self, at: int) -> bool:
        """Return True if the step, or an earlier one, differentiates: its result may be a gradient."""
        return any(step.call in ("gradients", "minimize") for step in self.building.recipe.steps[: at + 1])

    def _narrow(self) -> bool:
        return any(
            t.dtype not in ("float64", "int64", "int32", "uint8", "bool")
            for t in self.building.program.block.types.values()
        )

    def _unsure(self, name: str) -> float:
        """Return the error of a tensor if the results of all ops are off in their last digits."""
        if self._noise is None:
            self._noise = self._measured()
        return self._noise[self.building.value(name).name]

    def _measured(self) -> dict[str, float]:
        tape, rng = self.building.tape, np.random.default_rng(0)
        base = {name: array.astype(np.float64) for name, array in tape.arrays.items() if array.dtype.kind in "fiub"}
        found = dict.fromkeys(tape.arrays, 0.0)
        narrow = self._narrow()

        def change(name: str, array: np.ndarray) -> None:
            if array.dtype.kind == "f":
                array *= (1 + NOISE["float32" if narrow else "float64"] * rng.normal(size=array.shape)).astype(
                    array.dtype
                )

        for _ in range(4):
            tape.run(change)
            for name, array in base.items():
                with np.errstate(all="ignore"):
                    moved = np.abs(tape.arrays[name].astype(np.float64) - array)
                same = (tape.arrays[name] == array) | (np.isnan(tape.arrays[name].astype(np.float64)) & np.isnan(array))
                found[name] = max(found[name], float(np.max(np.where(same, 0.0, moved), initial=0.0)))
        tape.run()
        return found
