"""Recurrent layers with weights of bfloat16: values beside a loop in float64, and equal bits on instruction sets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native.building import SETS
from native.mixed.test_products import numbers
from subjects.commands import run_compiler

import prograd
from prograd import Program, ops
from prograd_proto.dtypes import DTypeName

Array = np.ndarray[Any, np.dtype[Any]]

GATES = {"rnn_layer": 1, "gru_layer": 3, "lstm_layer": 4}

SIZES = [(32, 5, 64, False), (32, 3, 70, True), (3, 4, 13, False), (1, 3, 41, True), (16, 2, 531, False)]
"""Rows, steps and states, and the presence of a mask."""


def rounded(x: Array) -> Array:
    """Round to bfloat16, to nearest, ties to even, by the exponent of each number and its 8 digits."""
    mantissa, exponent = np.frexp(x.astype("f8"))
    return np.ldexp(np.rint(mantissa * 256), exponent - 8)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def by_hand(name: str, feeds: dict[str, Array]) -> Array:
    """Compute the states of all steps in float64; only operands of products are rounded."""
    x, r, h = (feeds[key].astype("f8") for key in ("x", "r", "h0"))
    c = feeds["c0"].astype("f8") if "c0" in feeds else h
    steps: list[Array] = []
    for t in range(x.shape[1]):
        a = rounded(h) @ r
        if name == "rnn_layer":
            new, cell = np.tanh(x[:, t] + a), c
        elif name == "lstm_layer":
            i, f, g, o = np.split(x[:, t] + a, 4, 1)
            cell = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            new = sigmoid(o) * np.tanh(cell)
        else:
            (xr, xu, xn), (ar, au, an) = (np.split(part, 3, 1) for part in (x[:, t], a + feeds["bias"]))
            update = sigmoid(xu + au)
            new, cell = (1 - update) * np.tanh(xn + sigmoid(xr + ar) * an) + update * h, c
        shown = feeds["mask"][:, t : t + 1] if "mask" in feeds else np.ones((len(h), 1), bool)
        h, c = np.where(shown, new, h), np.where(shown, cell, c)
        steps.append(h)
    return np.stack(steps, 1)


def layer(path: Path, name: str, sizes: tuple[int, int, int, bool], dtype: DTypeName = "bfloat16") -> dict[str, Array]:
    """Save a program with a layer, whose loss steps into its operands; return its feeds.

    `dtype` is that of the weights.
    """
    (rows, times, states, masked), gates = sizes, GATES[name]
    rng = np.random.default_rng(5)
    shapes = {"x": (rows, times, gates * states), "h0": (rows, states)}
    shapes |= {"bias": (gates * states,)} if gates == 3 else {"c0": (rows, states)} if gates == 4 else {}
    feeds: dict[str, Array] = {key: rng.normal(size=shape).astype("f4") for key, shape in shapes.items()}
    feeds["r"] = numbers(3, (states, gates * states)) / np.float32(8)
    program = Program("layer", seed=1)
    given = {key: program.input(key, "float32", shape) for key, shape in shapes.items()}
    trained = {key: program.parameter(f"{key}.more", shape, prograd.zeros()) for key, shape in shapes.items()}
    given = {key: value + trained[key] for key, value in given.items()}
    operands = [given["x"], program.input("r", dtype, feeds["r"].shape)]
    operands += [given[key] for key in ("bias", "h0", "c0") if key in given]
    if masked:
        feeds["mask"] = rng.random((rows, times)) < 0.7
        operands.append(program.input("mask", "bool", (rows, times)))
    made = getattr(ops, name)(*operands)
    h = made[0] if gates == 4 else made
    program.minimize(ops.mean(h * h), prograd.sgd(1.0))
    program.outputs(h=ops.identity(h))
    program.compile().save(path / "p.pb", force=True)
    return feeds


def step(path: Path, feeds: dict[str, Array], engine: str) -> tuple[Array, dict[str, Array], str]:
    """Return the result of a layer, the gradients of its operands, and the digest of both."""
    run = prograd.load(path / "p.pb", engine=engine)
    h = np.asarray(run.predict(feeds)["h"])
    run.step(feeds)
    gradients = {name: -np.array(value) for name, value in run.state.items() if name.endswith(".more")}
    return h, gradients, run.state_sha256


@pytest.mark.sampled(9)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_states_are_those_of_rounded_products(tmp_path: Path, engine: str, name: str, sizes: Any) -> None:
    feeds = layer(tmp_path, name, sizes)
    h, _, _ = step(tmp_path, feeds, engine)
    assert np.abs(h - by_hand(name, feeds)).max() < 0.01  # a state near the middle of two numbers rounds either way


@pytest.mark.sampled(12)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_gradients_are_near_those_of_float32(tmp_path: Path, engine: str, name: str, sizes: Any) -> None:
    feeds = layer(tmp_path, name, sizes, "float32")
    _, exact, _ = step(tmp_path, feeds, "reference")
    layer(tmp_path, name, sizes)
    _, found, _ = step(tmp_path, feeds, engine)
    for key, wanted in exact.items():
        error = np.linalg.norm(found[key] - wanted) / np.linalg.norm(wanted)
        assert 0 < error < 0.02


@pytest.mark.thorough
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", GATES)
def test_states_and_gradients_have_equal_bits_on_all_instruction_sets(tmp_path: Path, name: str, sizes: Any) -> None:
    feeds = layer(tmp_path, name, sizes)
    (h, _, digest), *others = (step(tmp_path, feeds, f"native.{each}") for each in SETS)
    for other, _, other_digest in others:
        assert np.array_equal(other.view("u4"), h.view("u4"))
        assert other_digest == digest


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_a_mixed_step_joins_the_layer_with_its_features_and_gradient(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    program = Program("sequences", seed=1)
    x, gates = program.input("x", "float32", (32, 6, 48)), GATES[f"{name}_layer"]
    shapes = {"input": (48, gates * 64), "state": (64, gates * 64), "b1": (gates * 64,), "b2": (gates * 64,)}
    h = getattr(ops, name)(x, *(program.parameter(key, shape) for key, shape in shapes.items()))[0]
    program.minimize(ops.mean(h * h), prograd.sgd(0.1))
    program.compile(mixed="bfloat16").save(tmp_path / "p.pb")
    _, shown, _ = run_compiler(capsys, "show", tmp_path / "p.pb", "--engine", "native")
    assert "the input projection" in shown
    assert "kept gates" in shown
    assert (
        len(re.findall(r"lstm_layer_gradient with [^\n]*, cast\b|gru_layer_gradient with [^\n]*, cast, cast\b", shown))
        == 1
    )


@pytest.mark.thorough
@pytest.mark.parametrize("engine", [f"native.{each}" for each in SETS])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_results_that_a_layer_rounds_itself_have_the_bits_of_casts(
    tmp_path: Path, engine: str, name: str, masked: bool
) -> None:
    """A step that fetches what the casts read keeps the casts."""
    program = Program("sequences", seed=1)
    x, gates = program.input("x", "float32", (16, 6, 40)), GATES[f"{name}_layer"]
    mask = [program.input("mask", "bool", (16, 6))] if masked else []
    weights = [
        program.parameter(key, shape, prograd.normal(0.0, 0.2))
        for key, shape in {"w": (40, gates * 72), "r": (72, gates * 72), "bias": (gates * 72,)}.items()
    ]
    zero = program.parameter("first", (16, 72), prograd.zeros())
    before = x @ weights[0] if name == "gru" else x @ weights[0] + weights[2]
    between = [weights[2]] if name == "gru" else []
    states = [zero, zero] if name == "lstm" else [zero]
    made = getattr(ops, f"{name}_layer")(before, weights[1], *between, *states, *mask)
    h = made[0] if name == "lstm" else made
    out = h @ program.parameter("out", (72, 48), prograd.normal(0.0, 0.2))
    program.minimize(ops.mean(ops.square(out - 1.0)), prograd.sgd(0.5))
    compiled = program.compile(mixed="bfloat16")
    compiled.save(tmp_path / "p.pb", force=True)
    entry = next(entry for entry in compiled.desc.entries if entry.name == "train")
    block = compiled.desc.blocks[entry.bindings[0].block]
    fetch = [x for op in block.ops if f"{name}_layer" in op.type for x in op.outputs]
    feeds = {"x": numbers(0, (16, 6, 40)), **({"mask": np.arange(96).reshape(16, 6) % 5 > 0} if masked else {})}
    digests: list[str] = []
    for fetched in ((), fetch):
        run = prograd.load(tmp_path / "p.pb", engine=engine)
        for _ in range(3):
            run.step(feeds, fetch=fetched)
        digests.append(run.state_sha256)
    assert digests[0] == digests[1]


def test_weights_of_bfloat16_need_states_of_float32() -> None:
    program = Program("layer")
    x, h0 = program.input("x", "float64", (4, 3, 8)), program.input("h0", "float64", (4, 8))
    with pytest.raises(prograd.OpError, match="dtypes differ: float64 and bfloat16; cast one of them"):
        ops.rnn_layer(x, program.input("r", "bfloat16", (8, 8)), h0)
