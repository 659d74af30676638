"""Kernels of the reference engine: the NumPy function that computes an op, with its contract.

A kernel is `f(x, w, *, axis, out, scratch)`: inputs by position (None is an absent optional one), attributes by name
and without defaults, because the file has them all. `out` is the output array, or a list of them if there are several.
`scratch` is the list of arrays that the declaration asks for. A kernel with a parameter `random_stream` gets the op's
stream. It writes into `out` and allocates only small temporaries.

The declaration makes both the operator's contract (`runtime.contract`) and the kernel. Any engine and the check of a
file use the contract. The kernel, with its scratch and the outputs that it can write in place, belongs to this engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Unpack

import numpy as np

from prograd_proto import Attribute, TensorType
from prograd_proto.result_types import Types
from runtime.contract import Contract, Facts, by_name, declare, parameters, require_known
from runtime.contract import Effect as Effect
from runtime.contract import require as require
from runtime.dtypes import BFLOAT16
from runtime.dtypes import Array as Array
from runtime.row_rules import pointwise

Room = Callable[..., Sequence[TensorType]]
"""A function to the types of a kernel's scratch, from input types, output types (`out`) and attributes, by name."""

KERNELS: Final[dict[str, Kernel]] = {}
"""The kernels by operator name."""


class Kernel(NamedTuple):
    """The function of an operator, its scratch, and the inputs that its outputs may overwrite."""

    contract: Contract
    function: Callable[..., object]
    room: Room | None  # function to the types of its scratch
    in_place: tuple[tuple[int, int], ...]  # (output, input) pairs that may share memory
    elementwise: bool  # True for a ufunc: inputs and outputs by position

    def scratch(self, inputs: Sequence[TensorType | None], attributes: dict[str, Attribute]) -> tuple[TensorType, ...]:
        """Return the types of the arrays that the function may overwrite while it runs."""
        if self.room is None:
            return ()
        asked = parameters(self.room)
        outputs = self.contract.rule.results(*inputs, **attributes) if "out" in asked else None
        named = by_name(self.contract, inputs, outputs) | attributes
        return tuple(self.room(*[named[name] for name in asked]))

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
        if self.contract.rule.halves:
            inputs = [None if array is None else _bits(array) for array in inputs]
            outputs = [_bits(array) for array in outputs]
        out = outputs[0] if len(outputs) == 1 and not self.contract.variadic_outputs else list(outputs)
        return partial(self.function, *inputs, out=out, **attributes, **more)


def _bits(array: Array) -> Array:
    return array.view(np.uint16) if array.dtype == BFLOAT16 else array


def kernel(
    rule: Types | None = None,
    *,
    scratch: Room | None = None,
    in_place: Sequence[tuple[int, int]] = (),
    namespace: str = "",
    version: int = 1,
    halves: bool = False,
    **facts: Unpack[Facts],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare an operator with the decorated function's name, and the function as its kernel.

    Args:
        rule: rule of result types of a plugin's operator; others have theirs in `prograd_proto.result_types`.
        scratch: function to the types of the kernel's scratch. Its parameters are named like inputs, like attributes,
            or `out` for the output (a tuple if there are several).
        in_place: (output, input) pairs that may share memory; the pair of a view always may.
        namespace: for a plugin's kernels the plugin's name, which precedes a dot in the op type.
        version: version of a plugin's operator, as `runtime.contract.declare` explains it.
        halves: True if a plugin's operator takes 16-bit floats too. The function sees bfloat16 as uint16.
        facts: facts of the operator's contract, as `runtime.contract.Contract` explains them: `view`, `effects`,
            `rows`, `operations` … With `variadic_outputs` the function gets a list as `out` whatever the number of
            outputs. `random` follows from its parameters.
    """

    def declared(function: Callable[..., None]) -> Callable[..., None]:
        name, random = function.__name__.removesuffix("_"), _takes_random_stream(function)
        contract = declare(
            name, rule, namespace=namespace, version=version, halves=halves, **facts | {"random": random}
        )
        known = {*contract.rule.inputs, *contract.rule.attributes, "out"}
        require_known(f"the scratch of kernel {contract.name!r}", scratch, known)
        pairs = ((0, 0),) if contract.view else tuple(in_place)
        KERNELS[contract.name] = Kernel(contract, function, scratch, pairs, elementwise=False)
        return function

    return declared


def elementwise(
    name: str,
    ufunc: Callable[..., object],
    rule: Types | None = None,
    *,
    in_place: Sequence[tuple[int, int]] = (),
    namespace: str = "",
) -> None:
    """Declare operator `name` with a NumPy ufunc, or a function with the same signature, as its kernel.

    Its row rule is `row_rules.pointwise`.
    """
    contract = declare(name, rule, namespace=namespace, rows=pointwise)
    KERNELS[contract.name] = Kernel(contract, ufunc, None, tuple(in_place), elementwise=True)


def _takes_random_stream(function: Callable[..., None]) -> bool:
    code = function.__code__
    return "random_stream" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
