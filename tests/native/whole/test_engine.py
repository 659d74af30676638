"""Whole programs by the native engine, against the reference engine: the same numbers, but for their last digits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from native.bound import lowered
from subjects.commands import fields
from subjects.commands import run_runtime as command
from subjects.random_training import training_programs
from subjects.small_programs import rich, save
from subjects.steps import bound_block

import runtime
from compiler import Program, adam, nadam, normal, ops, radam
from runtime.codegen.lowering.passes.fuse import fused_groups
from runtime.codegen.lowering.passes.read import read_nodes
from runtime.engines.native.cpu import this_machine

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.pb"))


NEAR = {"decoder": 3e-4}
"""Differences allowed after 20 steps, relative to the largest element; Adam enlarges those of gradients close to 0."""


STEPS = {"digits_cnn": 14}
"""Steps of an example if they are not 20. Pixels of a background share an activation, which is close to 0 in steps 10,
16 and 20: a relative change of 1e-7 in the first weights changes the states of the reference engine by up to 3e-2.
"""


def trained(path: Path, engine: str, steps: int, threads: int = 1) -> dict[str, np.ndarray]:
    run = runtime.load(path, engine=engine, threads=threads)
    for _ in run.events(steps=steps):
        pass
    return {name: array.copy() for name, array in run.states.arrays.items()}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_trains_to_the_same_states(path: Path):
    native, reference = (trained(path, engine, STEPS.get(path.stem, 20)) for engine in ("native", "reference"))
    for name, expected in reference.items():
        if expected.dtype.kind == "f":
            scale = np.abs(expected).max(initial=1e-3)
            near = NEAR.get(path.stem, 1e-4)
            np.testing.assert_allclose(native[name], expected, rtol=0, atol=near * scale, err_msg=name)
        else:
            np.testing.assert_array_equal(native[name], expected, err_msg=name)


@pytest.mark.thorough
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_command_makes_the_steps_of_an_example_at_once_and_alike(path: Path, capsys: pytest.CaptureFixture[str]):
    """Evaluation included: on any number of threads to the same bits, and near those of the reference."""
    arguments = ["execute", path, "-q", "--steps", 25]
    lines: list[dict[str, str]] = []
    for options in (["--engine=native"], ["--engine=native", "--threads=2"], ["--engine=reference"]):
        code, out, err = command(capsys, *arguments, *options)
        assert (code, err) == (0, "")
        lines.append(fields(out[-1]))
    one, two, reference = lines
    assert (one["engine"], reference["engine"]) == ("native", "reference")
    assert one["state_sha256"] == two["state_sha256"]
    for name in one:
        if "loss" in name:
            assert float(one[name]) == float(two[name]) == pytest.approx(float(reference[name]), rel=1e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("optimizer", [nadam, radam], ids=["nadam", "radam"])
def test_what_is_dropped_and_what_is_rounded_to_16_bits_is_the_same(optimizer: Callable[..., Any]):
    program = Program("dropped", seed=3)
    x, y = program.input("x", "float32", (7, 33)), program.input("y", "float32", (7, 5))
    w = program.parameter("w", (33, 47), normal(0.0, 0.3))
    v = program.parameter("v", (47, 5), normal(0.0, 0.3), dtype="bfloat16")
    hidden = ops.cast(ops.dropout(ops.sin(x @ w), ratio=0.3), dtype="float16")
    out = ops.dropout(ops.cast(hidden, dtype="float32") @ ops.cast(v, dtype="float32"), ratio=0.1)
    program.minimize(ops.squared_error(out, y), optimizer(0.01))
    desc = program.compile().desc
    rng = np.random.default_rng(0)
    rows = [{"x": rng.normal(size=(7, 33)).astype("f4"), "y": rng.normal(size=(7, 5)).astype("f4")} for _ in range(9)]
    runs = [runtime.Run(desc, engine=engine) for engine in ("native", "reference")]
    made, expected = ([run.step(row)["loss"] for row in rows] for run in runs)
    np.testing.assert_allclose(made, expected, rtol=1e-3)


@pytest.mark.thorough
@settings(max_examples=16)
@given(program=training_programs())
def test_a_random_program_gives_the_same_numbers(program: Program):
    desc = program.compile(rows=3).desc
    x = np.random.default_rng(0).standard_normal((3, 4))
    results = []
    for engine in ("native", "reference"):
        run = runtime.Run(desc, engine=engine)
        fetched = [run.step({"x": x + i}) for i in range(3)]
        results.append((fetched, run.states.arrays))
    (native, native_states), (reference, states) = results
    for made, expected in zip(native, reference, strict=True):
        for name in expected:
            np.testing.assert_allclose(made[name], expected[name], rtol=1e-10, atol=1e-10, err_msg=name)
    for name, array in states.items():
        np.testing.assert_allclose(native_states[name], array, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.thorough
@pytest.mark.parametrize("stem", ["digits_mlp", "digits_cnn", "characters"])
def test_runs_have_the_same_bits_for_any_number_of_threads(stem: str):
    path = next(path for path in EXAMPLES if path.stem == stem)
    first, *others = (trained(path, "native", 5, threads) for threads in (1, 1, 2, 3, 4))
    for other in others:
        assert [name for name in first if first[name].tobytes() != other[name].tobytes()] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_a_group_reads_lives_until_its_last_phase(path: Path, threads: int):
    """The oracle of placement trusts live ranges; these are asked of phases, group by group."""
    run = runtime.load(path, engine="reference")
    for entry in run.program.entries:
        block = run.session.bindings(entry.name)[0].block
        step = lowered(block, (), this_machine(), threads, blocks=run.program.blocks)
        lives = {buffer.name: (buffer.start, buffer.stop) for buffer in step.memory.buffers}
        chain_of = {
            i: {name for j in chain if j < i for name in step.groups[j].outputs}
            for chain in step.phases.tiled_chains
            for i in chain
        }
        for i, (group, first, last) in enumerate(zip(step.groups, step.phases.first, step.phases.last, strict=True)):
            for name in lives.keys() & {step.nodes.root[name] for node in group.nodes for name in node.inputs if name}:
                start, stop = lives[name]
                begun = start < first or start == 0 or (start == first and name in chain_of.get(i, ()))
                assert name in group.outputs or begun, (group.name, name)
                assert stop > last, (group.name, name)


def test_pointwise_ops_join_what_makes_their_operand():
    """A layer and its activation are one group, and so are a gradient and the update that reads it."""
    program = Program("layers")
    x = program.input("x", "float32", ("batch", 8))
    w, b = program.parameter("w", (8, 16)), program.parameter("b", (16,))
    program.minimize(ops.mean(ops.square(ops.relu(x @ w + b))), adam(0.1))
    groups = [group.name for group in fused_groups(read_nodes(bound_block(program.compile(batch=32).desc)))]
    assert any(name.startswith("matmul+add+relu") for name in groups), groups
    assert "outer_sum+adam" in groups


def test_the_result_line_names_the_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code, out, err = command(capsys, "execute", save(rich(), tmp_path), "--engine", "native", "-q")
    assert (code, err) == (0, "")
    assert " engine=native " in out[-1]


def test_products_of_single_elements_are_told_apart():
    """Each of a batch has a right factor of its own; a result of one element is not there before its product."""
    program = Program("single")
    x, y = (program.input(name, "float64", (3, 1, 1)) for name in "xy")
    one = program.input("one", "float64", (1, 1))
    three = ops.full.on(program)(shape=(1, 1), value=3.0, dtype="float64")
    program.outputs(batch=-(x @ y), after=one @ one + 1.0, constant=one @ three, total=ops.sum(three))
    desc = program.compile().desc
    feeds = {"x": np.array([[[1.0]], [[2.0]], [[3.0]]]), "y": np.array([[[4.0]], [[5.0]], [[6.0]]]), "one": [[2.0]]}
    found = runtime.Run(desc, engine="native").step(feeds, entry="predict")
    assert found["batch"].reshape(-1).tolist() == [-4.0, -10.0, -18.0]
    assert [found[name].item() for name in ("after", "constant", "total")] == [5.0, 6.0, 3.0]
