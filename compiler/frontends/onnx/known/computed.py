"""Nodes of known operands, computed by ONNX's evaluator while importing: for each trial of the symbols."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.onnx.known.bounds import SMALL, elements_made, is_beyond, overflows
from compiler.frontends.onnx.known.constants import SURE_TRIALS, Constant, Store, Symbols, settled
from compiler.frontends.onnx.reading import Tensors, package
from runtime.errors import ResourceLimit

ELEMENT_BYTES: Final = 8
"""Upper bound on the bytes of an element of most constants."""

EVALUATED_SINCE: Final = {"DequantizeLinear": 19, "QuantizeLinear": 19}
"""First opsets that ONNX's evaluator has of operators whose meaning is older."""


def computed(
    node: Any,
    operands: Sequence[Constant | None],
    versions: Mapping[str, int],
    symbols: Symbols,
    store: Store,
    tensors: Tensors,
) -> list[Any] | None:
    """Return the results of a node whose operands are known; None if they cannot be computed here.

    Args:
        node: the node.
        operands: its operands, None for those that are left out.
        versions: the opset of each domain.
        symbols: the symbols of the import.
        store: puts the elements of an array into the program.
        tensors: the reader of the file.
    """
    if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
        return [Constant((_of_constant_node(node, tensors),) * symbols.trials, symbols, store)]
    if node.op_type == "Slice" and is_beyond(operands):
        return None
    trials = _trials(node, operands, versions, symbols.trials, tensors)
    if trials is None:
        return None
    made = iter(zip(*trials, strict=True))
    return [Constant(settled(next(made)), symbols, store) if name else None for name in node.output]


def _trials(
    node: Any, operands: Sequence[Constant | None], versions: Mapping[str, int], count: int, tensors: Tensors
) -> list[list[Any]] | None:
    """Return the results in each trial; the trial of large sizes is left out where it would make many elements."""
    given = [x for x in operands if x is not None]
    trials: list[list[Any]] = []
    for number in range(min([count, *(len(x.trials) for x in given)])):
        if number and all(x.trials[number] is x.trials[0] for x in given):
            trials.append(trials[0])
            continue
        arrays = {n: x.trials[number] for n, x in zip(node.input, operands, strict=True) if x is not None}
        if number >= SURE_TRIALS and overflows(node, arrays):
            return trials
        made = _evaluated(node, arrays, versions, tensors, SMALL if number >= SURE_TRIALS else None)
        if made is None and number < SURE_TRIALS:
            return None
        if made is None or any(a.ndim != b.ndim for a, b in zip(made, trials[0] if trials else made, strict=True)):
            return trials
        trials.append(made)
    return trials


def _evaluated(
    node: Any, given: dict[str, Any], versions: Mapping[str, int], tensors: Tensors, most: int | None
) -> list[Any] | None:
    """Return the results of a node as ONNX's evaluator computes them; None if it cannot.

    Args:
        node: the node.
        given: its operands by name.
        versions: the opset of each domain.
        tensors: the reader of the file, with what the import may take.
        most: the largest number of elements, None if the account alone limits it.
    """
    onnx, reference = package(), importlib.import_module("onnx.reference")
    helper, least = onnx.helper, EVALUATED_SINCE.get(node.op_type, 1)
    imports = [helper.make_opsetid(d, v if d else max(v, least)) for d, v in versions.items()]
    count = elements_made(onnx, node, given, imports)
    if count == np.inf or (most is not None and count > most):
        return None
    tensors.account.require(ELEMENT_BYTES * count, f"a constant of {node.op_type}")
    inputs = [helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(filter(None, node.input))]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    model = helper.make_model(helper.make_graph([node], "constant", inputs, outputs), opset_imports=imports)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = reference.ReferenceEvaluator(model).run(None, given)
    except (MemoryError, ResourceLimit):
        raise
    except Exception:  # the evaluator raises errors of many classes for operators that it lacks
        return None
    if any(not isinstance(y, np.ndarray | np.generic | int | float) for y in results):
        return None
    arrays = [np.asarray(y) for y in results]
    tensors.account.take(sum(y.nbytes for y in arrays))
    return arrays


def _of_constant_node(node: Any, tensors: Tensors) -> Any:
    helper = package().helper
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        match attribute.name:
            case "value":
                return tensors.array(value)
            case "value_float" | "value_floats":
                return np.asarray(value, dtype=np.float32)
            case "value_int" | "value_ints":
                return np.asarray(value, dtype=np.int64)
            case "value_string" | "value_strings":
                texts = [text.decode("utf-8", "replace") for text in np.atleast_1d(np.asarray(value, object))]
                return np.asarray(texts if attribute.strings else texts[0], object)
            case _:
                raise CompileError(f"a constant by {attribute.name}, which prograd has not")
    raise CompileError("a constant without a value")
