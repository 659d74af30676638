"""Training and evaluation of a module, as two graphs of torch.export.

Submodules stay in the modes that their user chose: the graph of training has the module as it is, and the graph of
evaluation has the module after module.eval(). Mostly they differ in flags of dropout and batch normalisation alone,
whose ops have an inference form; then one graph serves both. Otherwise both are walked, with shared states.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, Final

from compiler.frontends.arranged import Arranged, arranged, plain
from compiler.frontends.torch.nodes import written
from registry import ops

FLAGS: Final = {
    "aten.dropout.default": "train",
    "aten.batch_norm.default": "training",
    "aten.lstm.input": "train",
    "aten.gru.input": "train",
    "aten.rnn_tanh.input": "train",
    "aten.rnn_relu.input": "train",
    "aten.scaled_dot_product_attention.default": "dropout_p",
}
"""The name of the operand, by operator, that is true or positive in training, and false or 0 in evaluation."""

DRAWN: Final = "bernoulli"
"""Word in the names of operators that draw in evaluation, too, and whose ops are a mean there."""


@contextmanager
def in_evaluation(module: Any) -> Generator[None]:
    """Put a module and its submodules into evaluation for a time."""
    before = {child: child.training for child in module.modules()}
    for child in before:
        child.training = False
    try:
        yield
    finally:
        for child, training in before.items():
            child.training = training


def serves_both(training: Any, evaluation: Any) -> bool:
    """Return True if one graph, in inference forms, equals the other: they may differ in the flags of `FLAGS`."""
    pairs = zip_longest(_counted(training), _counted(evaluation))
    known: dict[Any, Any] = {}
    return all(one is not None and other is not None and _are_alike(one, other, known) for one, other in pairs)


def _counted(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph but the counters of batches, which only training has."""
    for node in graph.nodes:
        operand = node.args[0] if node.args else None
        is_counter = (
            str(node.target) == "aten.add_.Tensor"
            and str(getattr(operand, "target", "")).endswith("num_batches_tracked")
            and not node.users
        )
        if not is_counter:
            yield node


def _are_alike(one: Any, other: Any, known: dict[Any, Any]) -> bool:
    known[one] = other
    if one.op != other.op:
        return False
    if one.op == "get_attr":
        graphs = [getattr(getattr(node.graph.owning_module, node.target, None), "graph", None) for node in (one, other)]
        return None in graphs or serves_both(*graphs)
    if one.op == "placeholder":
        return one.target == other.target
    if one.target != other.target or DRAWN in str(one.target):
        return False
    if _writes_buffer(one):
        return False
    here, there = _operands(one), _operands(other)
    flag = FLAGS.get(str(one.target))
    if flag is not None and not _follows_mode(here.pop(flag, False), there.pop(flag, False), here):
        return False
    return here.keys() == there.keys() and all(_equal(here[name], there[name], known) for name in here)


def _writes_buffer(node: Any) -> bool:
    """Return True if a node writes into a buffer, or into a view of one."""
    given = written(node.target, node.args, node.kwargs)
    return any(str(getattr(_origin(x), "target", "")).startswith("b_") for x in given)


def _origin(x: Any) -> Any:
    """Return the placeholder that a node is a view of, or the first operand of its first operand and so on."""
    while getattr(x, "op", "") == "call_function" and x.args and hasattr(x.args[0], "op"):
        x = x.args[0]
    return x


def _follows_mode(training: Any, evaluation: Any, operands: Mapping[str, Any]) -> bool:
    """Return True if a flag is off in evaluation, or belongs to a normalisation without statistics."""
    is_without = "running_mean" in operands and operands["running_mean"] is None
    return not evaluation or (is_without and training == evaluation)


def _operands(node: Any) -> dict[str, Any]:
    """Return the operands of a node by name, with the defaults of those that are not given."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {str(i): x for i, x in enumerate(node.args)} | dict(node.kwargs)
    names = [argument.name for argument in schema.arguments]
    defaults = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    return defaults | dict(zip(names, node.args, strict=False)) | dict(node.kwargs)


def _equal(one: Any, other: Any, known: Mapping[Any, Any]) -> bool:
    if hasattr(one, "op") and hasattr(one, "users"):
        return known.get(one) is other
    if isinstance(one, list | tuple):
        return (
            isinstance(other, list | tuple)
            and len(one) == len(other)
            and all(_equal(a, b, known) for a, b in zip(one, other, strict=True))
        )
    return type(one) is type(other) and (one == other or one != one)


def by_mode(training: Arranged, evaluation: Arranged) -> Arranged | None:
    """Return a result that is one tensor in training and the other elsewhere; None if their types differ."""
    if training.dtype != evaluation.dtype or training.shape != evaluation.shape:
        return None
    return arranged(ops.when_training(plain(training), ops.stop_gradient(plain(evaluation))))


def paired(
    training: Mapping[str, Arranged], evaluation: Mapping[str, Arranged]
) -> tuple[dict[str, Arranged], dict[str, Arranged]]:
    """Return the results of training and of predictions, by name; results of equal types are shared."""
    both = {name: by_mode(x, evaluation[name]) for name, x in training.items() if name in evaluation}
    joined = {name: x for name, x in both.items() if x is not None}
    return {**training, **joined}, {**evaluation, **joined}


def unlike(problems: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return the problems of a second graph that the first has not."""
    known = {(each.operator, each.reason) for each in problems}
    return [each for each in others if (each.operator, each.reason) not in known]
