"""Kernels of the reference engine: the NumPy function that computes an op, declared beside the rule of its contract.

A kernel is `f(x, w, *, axis, out, scratch)`: inputs by position (None is an absent optional one), attributes by name
and without defaults, because the file has them all. `out` is the output array, or a list of them when the rule returns
several. `scratch` is the list of arrays that the rule asked for. A kernel with a parameter `random_stream` gets the
op's stream. It writes into `out` and allocates only small temporaries.

The declaration makes both the operator's contract (`runtime.contract`) and the kernel. Any engine and the check of a
file use the contract. The kernel, with its scratch and the outputs that it can write in place, belongs to this engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Unpack

import numpy as np

from prograd_proto import Attribute, TensorType
from runtime.contract import Contract, Facts, Rule, declare
from runtime.contract import Effect as Effect
from runtime.contract import Types as Types
from runtime.contract import require as require
from runtime.contract import types as types
from runtime.dtypes import BFLOAT16
from runtime.dtypes import Array as Array
from runtime.row_rules import pointwise

KERNELS: Final[dict[str, Kernel]] = {}
"""The kernels by operator name."""


class Kernel(NamedTuple):
    """The function of an operator, its scratch, and the inputs that its outputs may overwrite."""

    contract: Contract
    function: Callable[..., object]
    rule: Rule  # rule of the contract; its scratch belongs to this function
    in_place: tuple[tuple[int, int], ...]  # (output, input) pairs that may share memory
    elementwise: bool  # True for a ufunc: inputs and outputs by position

    def scratch(self, inputs: Sequence[TensorType | None], attributes: dict[str, Attribute]) -> tuple[TensorType, ...]:
        """Return the types of the arrays that the function may overwrite while it runs."""
        return self.rule(*inputs, **attributes).scratch

    def bind(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        scratch: Sequence[Array],
        attributes: dict[str, Attribute],
        random_stream: int,
    ) -> Callable[[], object]:
        """Return a call without arguments that computes one op; all look-ups happen now."""
        if self.elementwise:
            return partial(self.function, *inputs, *outputs)
        more: dict[str, object] = {"scratch": list(scratch)} if scratch else {}
        if self.contract.random:
            more["random_stream"] = random_stream
        if self.contract.halves:
            inputs = [None if array is None else _bits(array) for array in inputs]
            outputs = [_bits(array) for array in outputs]
        out = outputs[0] if len(outputs) == 1 and not self.contract.variadic_outputs else list(outputs)
        return partial(self.function, *inputs, out=out, **attributes, **more)


def _bits(array: Array) -> Array:
    return array.view(np.uint16) if array.dtype == BFLOAT16 else array


def kernel(
    rule: Rule,
    *,
    in_place: Sequence[tuple[int, int]] = (),
    namespace: str = "",
    **facts: Unpack[Facts],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare an operator with the decorated function's name, and the function as its kernel.

    Args:
        rule: function from input types and attributes to output and scratch types.
        in_place: (output, input) pairs that may share memory; the pair of a view always may.
        namespace: for a plugin's kernels the plugin's name, which precedes a dot in the op type.
        facts: facts of the operator's contract, as `runtime.contract.Contract` explains them: `version`, `view`,
            `effects`, `rows`, `operations` … With `halves` the function sees bfloat16 as uint16. With
            `variadic_outputs` it gets a list as `out` whatever the number of outputs. `random` follows from its
            parameters.
    """

    def declared(function: Callable[..., None]) -> Callable[..., None]:
        name, random = function.__name__.removesuffix("_"), _takes_random_stream(function)
        contract = declare(name, rule, namespace=namespace, **facts | {"random": random})
        pairs = ((0, 0),) if contract.view else tuple(in_place)
        KERNELS[contract.name] = Kernel(contract, function, rule, pairs, elementwise=False)
        return function

    return declared


def elementwise(
    name: str,
    ufunc: Callable[..., object],
    rule: Rule,
    *,
    in_place: Sequence[tuple[int, int]] = (),
    namespace: str = "",
) -> None:
    """Declare operator `name` with a NumPy ufunc, or a function with the same signature, as its kernel.

    Its row rule is `row_rules.pointwise`.
    """
    contract = declare(name, rule, namespace=namespace, rows=pointwise)
    KERNELS[contract.name] = Kernel(contract, ufunc, rule, tuple(in_place), elementwise=True)


def _takes_random_stream(function: Callable[..., None]) -> bool:
    code = function.__code__
    return "random_stream" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
