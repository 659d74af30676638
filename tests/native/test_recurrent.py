"""Recurrent layers and their gradients against the reference kernels, unit by unit, between forbidden pages."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from native.building import HERE, every_target
from native.made import check
from native.staged import expected, op_of, staged

from compiler import Program, ops
from registry import OPS
from runtime.codegen.lowering.passes.read import read_nodes
from runtime.codegen.machine import Target, target
from runtime.codegen.rules.recurrent import MAX_COMPILED_TIMES
from runtime.errors import ResourceLimit
from runtime.runs.run import load

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
"""Relative to the largest element: what a step rounds goes through all that follow."""


class Case(NamedTuple):
    """A layer: rows, steps, states."""

    rows: int
    times: int
    states: int
    reverse: bool = False
    is_masked: bool = False
    dtype: str = "float32"


CASES = {
    "several panels": Case(7, 4, 40),
    "one step of one row": Case(1, 1, 1, reverse=True),
    "masked": Case(5, 6, 16, is_masked=True),
    "backwards, masked": Case(14, 3, 17, reverse=True, is_masked=True, dtype="float64"),
    "backwards": Case(3, 4, 33, reverse=True),
    "a depth in parts": Case(2, 3, 170),
    "weights in place, of one row": Case(1, 3, 80, is_masked=True),
    "weights in place, of two rows": Case(2, 2, 48, reverse=True, dtype="float64"),
}
GATES = {"rnn_layer": 1, "gru_layer": 3, "lstm_layer": 4}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
@pytest.mark.parametrize("op", GATES)
def test_a_layer_and_its_gradient_compute_what_their_kernels_do(op: str, number: int):
    case, gates = list(CASES.values())[number], GATES[op]
    rng = np.random.default_rng(number)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(case.dtype)

    n, times, states = case.rows, case.times, case.states
    weights = normal(states, gates * states) / np.sqrt(states).astype(case.dtype)
    inputs = [normal(n, times, gates * states), weights, *([normal(gates * states)] if gates == 3 else [])]
    inputs += [normal(n, states) for _ in range(2 if gates == 4 else 1)]
    mask = rng.random((n, times)) < 0.6 if case.is_masked else None
    attributes = {"reverse": case.reverse}
    made = compared(op, inputs, mask, attributes, number)
    gradients = [normal(*y.shape) for y in made]
    compared(f"{op}_gradient", [*inputs, *made, *gradients], mask, attributes, number)


def compared(
    op: str, inputs: list[np.ndarray], mask: np.ndarray | None, attributes: dict[str, bool], number: int
) -> list[np.ndarray]:
    """Return the reference's results after a comparison with native code."""
    given = inputs if mask is None else [*inputs, mask]
    block = op_of(op, given, attributes)
    wanted = expected(block.ops[0], [*inputs, mask])
    for name in dict.fromkeys((HERE[0], HERE[number % len(HERE)])):
        for made, right in zip(staged(target(name), block, given, end=number % 2 == 0), wanted, strict=True):
            scale = np.abs(right).max(initial=1)
            np.testing.assert_allclose(made, right, rtol=0, atol=TOLERANCE[right.dtype.name] * scale)
    return wanted


@pytest.mark.parametrize(("wanted", "rows", "states"), [("x", 2, 3), ("weights, in place", 1, 16)])
@every_target
def test_what_a_layer_reads_is_there_until_the_last_step(wanted: str, rows: int, states: int, target: Target):
    rng = np.random.default_rng(0)

    def write(x, w, h0):
        operand = OPS["tanh"](x if wanted == "x" else w)
        made = OPS["rnn_layer"](*((operand, w) if wanted == "x" else (x, operand)), h0, None, reverse=False)
        other = operand  # read here after the layer begins, for the last time, but the layer reads on
        for _ in range(4):
            other = OPS["cumsum"](other, axis=1)
        return made, OPS["neg"](other)

    shapes = (rows, 12, states), (states, states), (rows, states)
    check(write, [rng.normal(size=shape) for shape in shapes], target, near=1e-12)


@pytest.mark.parametrize("op", GATES)
def test_a_layer_of_very_many_time_steps_is_refused_by_its_memory_before_it_is_lowered(op: str, tmp_path: Path):
    """Each time step of compiled code is a kernel step of its own; lowering 2 ** 32 of them would take days."""
    gates = GATES[op]
    program = Program("long")
    h = program.input("h", "float32", ("n", 3))
    w = program.parameter("w", (3, 3 * gates))
    bias = [program.parameter("bias", (3 * gates,))] if gates == 3 else []
    x = ops.broadcast_to(h[:, None, :1], shape=("n", 1 << 32, 3 * gates))
    made = OPS[op](x, w, *bias, *([h] * (2 if gates == 4 else 1)), None, reverse=False)
    program.outputs(total=ops.sum(made[0] if isinstance(made, tuple) else made))
    path = tmp_path / "long.pb"
    program.compile(n=1).save(path)
    run = load(path, engine="native", max_memory=200 << 20)
    with pytest.raises(ResourceLimit, match=r"^with the arena the run needs .* \(\d+\.0 GiB\), and the limit"):
        run.predict({"h": np.zeros((1, 3), "float32")})


@pytest.mark.parametrize("op", GATES)
def test_a_layer_of_more_time_steps_than_are_compiled_is_left_to_its_kernel(op: str):
    gates = GATES[op]
    for times, is_compiled in (MAX_COMPILED_TIMES, True), (MAX_COMPILED_TIMES + 1, False):
        bias, states = [np.zeros(gates)] * (gates == 3), [np.zeros((1, 1))] * (2 if gates == 4 else 1)
        given = [np.zeros((1, times, gates)), np.zeros((1, gates)), *bias, *states]
        results = [np.zeros((1, times, 1))] * (2 if gates == 4 else 1)
        for name, operands in (op, given), (f"{op}_gradient", [*given, *results, *results]):
            [node] = read_nodes(op_of(name, operands, {"reverse": False})).nodes
            assert (node.rule is not None) == is_compiled, (name, times)
