"""The program of an estimator: dense layers by its parameters, or the program that a function returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal

from compiler import Program, adamw, ops
from compiler.build.compiled import Compiled
from prograd import layers
from prograd_proto import type_of
from registry import Value

if TYPE_CHECKING:
    from runtime.engines.choice import EngineName

Kind = Literal["classes", "labels", "numbers"]
"""The kind of targets."""

Scale = tuple[tuple[float, ...], tuple[float, ...]]
"""Means and deviations of the numbers that are predicted."""

Build = Callable[[int, int], Program]
"""A function that returns a program for a number of features and of outputs."""

ACTIVATIONS: Final[Mapping[str, Callable[[Value], Value]]] = {
    "relu": ops.relu,
    "tanh": ops.tanh,
    "logistic": ops.sigmoid,
    "gelu": ops.gelu,
    "silu": ops.silu,
    "identity": lambda x: x,
}
"""Activations by name; those of scikit-learn's networks have its names."""

STEP_SECONDS: Final = 1e-3
"""Seconds of a step of a small network by NumPy, apart from its products."""

OPERATIONS_PER_SECOND: Final = 2e10
"""Additions and multiplications of NumPy's products in a second."""

UPDATE_SECONDS: Final = 5e-9
"""Seconds that NumPy takes to update a weight by Adam."""

SPARSE_ROW_SECONDS: Final = 1e-4
"""Seconds that NumPy takes to go through a sparse row, forwards and back."""

COMPILING_SECONDS: Final = 4.0
"""Estimated seconds of a training by NumPy; above this bound, the native engine is chosen."""

RATE: Final = "learning_rate"
"""Name of the setting of an estimator's own program, so that another rate needs no compilation."""


def dense_network(
    features: int,
    outputs: int,
    *,
    kind: Kind,
    hidden: tuple[int, ...],
    activation: str,
    dropout: float,
    rate: float,
    decay: float,
    is_sparse: bool = False,
    quantiles: tuple[float, ...] = (),
    scale: Scale | None = None,
) -> Program:
    """Return a network of dense layers that is trained by AdamW, with a weight for each row.

    Args:
        features: number of columns of `x`.
        outputs: number of classes, or of numbers that are predicted.
        kind: "classes" for one class of each row, "labels" for several labels that are 0 or 1, "numbers".
        hidden: width of each hidden layer.
        activation: name of the function between layers.
        dropout: share of the hidden units that a training step leaves out.
        rate: learning rate.
        decay: decoupled weight decay of the weights; biases do not decay.
        is_sparse: rows are `positions` and `values` of what is not 0, in place of `x`.
        quantiles: shares of the numbers below each of the predicted values, which are outputs times quantiles then.
        scale: mean and deviation of each number, which the network learns with mean 0 and deviation 1; the values that
            it predicts are in the units of the numbers.
    """
    program = Program("regressor" if kind == "numbers" else "classifier")
    h: Value | None = None if is_sparse else program.input("x", "float32", ("batch", features))

    def next_layer(name: str, width: int) -> Value:
        if h is not None:
            return layers.dense(h, name, width, bias_decay_scale=0.0)
        positions = program.input("positions", "int32", ("batch", "count"))
        values = program.input("values", "float32", ("batch", "count"))
        return layers.sparse_dense(positions, values, name, features, width, bias_decay_scale=0.0)

    for number, width in enumerate(hidden, 1):
        h = ACTIVATIONS[activation](next_layer(f"hidden{number}", width))
        h = layers.dropout(h, dropout) if dropout else h
    scores = next_layer("output", outputs * max(len(quantiles), 1))
    if kind == "classes":
        y = program.input("y", "int64", ("batch",))
        losses = ops.cross_entropy(scores, y, reduction="none")
        program.outputs(probabilities=ops.softmax(scores))
    elif kind == "labels":
        y = program.input("y", "float32", ("batch", outputs))
        losses = ops.mean(ops.binary_cross_entropy_with_logits(scores, y, reduction="none"), axis=1)
        program.outputs(probabilities=ops.sigmoid(scores))
    else:
        y = program.input("y", "float32", ("batch", outputs))
        means, deviations = scale or ((0.0,) * outputs, (1.0,) * outputs)
        wanted = (y - program.constant(means)) / program.constant(deviations)
        shares = program.constant(quantiles) if quantiles else None
        losses = ops.mean((scores - wanted) ** 2, axis=1) if shares is None else _pinball(wanted, scores, shares)
        center, factor = ([x for x in numbers for _ in quantiles or (0.5,)] for numbers in (means, deviations))
        program.outputs(values=scores * program.constant(factor) + program.constant(center))
    weight = program.input("weight", "float32", ("batch",))
    program.minimize(ops.mean(losses * weight), adamw(program.setting(RATE, rate), decay=decay))
    return program


def _pinball(y: Value, scores: Value, shares: Value) -> Value:
    """Return the pinball loss of each row, which is least at the quantiles of `shares`: Koenker and Bassett, 1978."""
    batch, outputs, count = y.shape[0], y.shape[1], shares.shape[0]
    error = ops.unsqueeze(y, axis=2) - ops.reshape(scores, shape=(batch, outputs, count))
    return ops.mean(ops.maximum(shares * error, (shares - 1.0) * error), axis=(1, 2))


def compiled(program: Program, rows: int, batch: int, lengths: tuple[int, ...] = ()) -> Compiled:
    """Return a program compiled for steps of `batch` rows and for those that remain of `rows`.

    `lengths` are the numbers of elements to which sparse rows are padded.
    """
    left = rows % batch
    [symbol] = program.symbols[:1]
    sizes: dict[str, Any] = {symbol: (batch, left) if left else batch}
    sizes |= {"count": lengths} if lengths else {}
    return program.compile(**sizes)


def engine_for(program: Program, rows: int, batch: int, epochs: int, density: float = 1.0) -> EngineName:
    """Return the engine for a training: NumPy where it takes less time than LLVM to compile, else the native one.

    `density` is the share of the elements of a row that are not 0.
    """
    states = [state for state in program.states.values() if state.trainable]
    weights = sum(prod(type_of(state).static_shape) for state in states)
    steps = -(-rows // batch)
    own = steps * (STEP_SECONDS + weights * UPDATE_SECONDS) + (rows * SPARSE_ROW_SECONDS if density < 1 else 0)
    seconds = epochs * (own + 6 * weights * density * rows / OPERATIONS_PER_SECOND)
    installed = find_spec("llvmlite") is not None
    return "native" if installed and seconds > COMPILING_SECONDS else "reference"


def feeds_of(program: Program) -> list[str]:
    """Return the names of a program's inputs."""
    parameters: list[Any] = list(program.block.desc.parameters)
    return [p.feed for p in parameters if p.WhichOneof("source") == "feed"]
