"""Frozen parameters: no gradients, updates and slots in what runs, other bits as they were, and back again."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told
from subjects.small_programs import arrays, save, write_data
from subjects.steps import bound_blocks

import runtime
from compiler import (
    CompileError,
    OpError,
    Program,
    adam,
    by_value,
    global_norm,
    lamb,
    look_ahead,
    momentum,
    normal,
    ops,
    sgd,
    zeros,
)
from prograd_proto.files import load
from prograd_proto.identity import program_sha256

X, Y = arrays()["x"], arrays()["y"]
FEEDS = {"x": X[:4], "y": Y[:4]}


def two_layers(optimizer, *, frozen=(), average=False, **options) -> Program:
    """An encoder and a head; of those in `frozen` it is said when they are declared."""
    program = Program("layers", seed=2)
    x, y = program.input("x", "float32", ("batch", 3)), program.input("y", "float32", ("batch",))
    w1 = program.parameter("encoder.w", (3, 5), trainable="encoder.w" not in frozen)
    b1 = program.parameter("encoder.b", (5,), zeros(), trainable="encoder.b" not in frozen)
    w2 = program.parameter("head.w", (5,), normal(0.0, 0.5), trainable="head.w" not in frozen)
    hidden = ops.tanh(x @ w1 + b1)
    program.minimize(ops.squared_error(ops.sum(hidden * w2, axis=(1,)), y), optimizer, **options)
    if average:
        program.average(0.5, [w1, w2])
    program.outputs(prediction=ops.sum(hidden * w2, axis=(1,)))
    return program


def steps(desc, number=6) -> dict[str, np.ndarray]:
    """The states after some steps from equal beginnings."""
    run = runtime.Run(desc)
    for name, seed in (("encoder.w", 1), ("head.w", 2)):
        run.state[name] = np.random.default_rng(seed).normal(size=run.state[name].shape).astype(np.float32)
    if "encoder.w.average" in run.state:
        run.state["encoder.w.average"] = run.state["encoder.w"]
        run.state["head.w.average"] = run.state["head.w"]
    for _ in range(number):
        run.step(FEEDS)
    return {name: run.state[name] for name in run.state}


ENCODER = ["encoder.w", "encoder.b"]
TRAINERS = {
    "sgd": lambda: (sgd(0.1), {}),
    "adam": lambda: (adam(0.1), {}),
    "norm of all": lambda: (adam(0.1), {"clip": global_norm(0.05)}),
    "norm of a group": lambda: (momentum(0.1, clip=global_norm(0.05)), {}),
    "by value": lambda: (adam(0.1), {"clip": by_value(0.01)}),
    "accumulated": lambda: (adam(0.1), {"accumulate": 2, "clip": global_norm(0.05)}),
    "look ahead": lambda: (look_ahead(momentum(0.1), every=2), {}),
    "lamb": lambda: (lamb(0.1), {"clip": global_norm(0.05)}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("frozen", [ENCODER, ["encoder.w"], ["head.w"]], ids=str)
@pytest.mark.parametrize("name", TRAINERS)
def test_freezing_is_as_if_it_had_been_declared(name, frozen):
    optimizer, options = TRAINERS[name]()
    declared = steps(two_layers(optimizer, frozen=frozen, **options).compile(batch=4).desc)
    program = two_layers(optimizer, **options)
    whole = program.compile(batch=4)
    assert program.freeze(*frozen) == frozen
    left = program.compile(batch=4)
    found = steps(left.desc)
    assert found.keys() == declared.keys(), "no slots of frozen parameters"
    assert all(np.array_equal(found[state], declared[state]) for state in found)
    assert sum(len(block.ops) for block in bound_blocks(left.desc)) < sum(len(b.ops) for b in bound_blocks(whole.desc))
    program.thaw("*")
    assert program.compile(batch=4).sha256 == whole.sha256


def test_what_does_not_depend_on_it_keeps_its_bits():
    program = two_layers(adam(0.1))
    program.freeze("encoder.*")
    desc = program.compile(batch=4).desc
    train = desc.blocks[desc.entries[0].bindings[0].block]
    assert not [update.state for update in train.updates if update.state.startswith("encoder")]
    assert not any(tensor.gradient_of.startswith("encoder") for tensor in train.tensors)
    assert not [op for op in train.ops if op.type == "matmul" and op.stage != 1]
    source = desc.blocks[desc.entries[0].source_block]
    assert {"encoder.w", "encoder.w.m"} <= {update.state for update in source.updates}


def test_the_average_of_a_frozen_parameter_comes_to_it():
    program = two_layers(sgd(0.1), average=True)
    program.freeze("encoder.*")
    run = runtime.Run(program.compile(batch=4).desc)
    run.state["encoder.w.average"] = np.zeros((3, 5), np.float32)
    for _ in range(3):
        run.step(FEEDS)
    np.testing.assert_allclose(run.state["encoder.w.average"], run.state["encoder.w"] * (1 - 0.5**3), rtol=1e-6)


def test_a_gradient_that_is_fetched_is_still_computed():
    program = two_layers(sgd(0.1))
    dw = next(t for t in program.block.desc.tensors if t.gradient_of == "encoder.w")
    program.fetch("dw", program[dw.name])
    whole = runtime.Run(program.compile(batch=4).desc).step(FEEDS)["dw"]
    program.freeze("encoder.*")
    assert np.array_equal(runtime.Run(program.compile(batch=4).desc).step(FEEDS)["dw"], whole)


def test_two_parameters_with_one_gradient_count_twice_and_then_once():
    def summed(frozen=()):
        program = Program("sum")
        a, b = (program.parameter(n, (3,), zeros(), trainable=n not in frozen) for n in "ab")
        x = program.input("x", "float32", ("batch", 3))
        program.minimize(ops.mean(x * (a + b) * 9.0 + a * 0.0), sgd(0.1), clip=global_norm(0.5))
        return program

    program = summed()
    program.freeze("b")
    found, declared = (runtime.Run(p.compile(batch=4).desc) for p in (program, summed(["b"])))
    for run in (found, declared):
        run.step({"x": X[:4]})
    assert np.array_equal(found.state["a"], declared.state["a"])
    assert found.state["b"].tolist() == [0, 0, 0]


def saved(tmp_path) -> Path:
    return save(two_layers(adam(0.01), clip=global_norm(1.0)), tmp_path, keep_best=None)


def command(folder, *words) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "compiler", *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.thorough
def test_files_are_frozen_and_thawed(tmp_path):
    path = saved(tmp_path)
    done = command(tmp_path, "freeze", "p.pb", "--states", "encoder.*", "-o", "frozen.pb")
    assert done.stderr == ""
    digest = program_sha256(load(tmp_path / "frozen.pb"))
    assert done.stdout == f"OK states=encoder.w,encoder.b program_sha256={digest}\n"
    assert digest != program_sha256(load(path))
    run = runtime.load(tmp_path / "frozen.pb")
    start = run.state["encoder.w"]
    run.train()
    assert np.array_equal(run.state["encoder.w"], start)
    assert "encoder.w.m" not in run.state
    assert "head.w.m" in run.state
    done = command(tmp_path, "thaw", "frozen.pb", "--states", "*.w", "--states", "*.b", "-o", "thawed.pb")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "thawed.pb").read_bytes() == path.read_bytes()
    assert command(tmp_path, "check", "frozen.pb").returncode == 0


def test_a_frozen_program_takes_less_memory_and_says_so(tmp_path):
    program = two_layers(adam(0.1))
    whole = program.compile(batch=4)
    program.freeze("encoder.*")
    left = program.compile(batch=4)
    run = runtime.Run(left.desc)
    assert left.plan().persistent == run.states.nbytes == whole.plan().persistent - 2 * 4 * (15 + 5)


def test_what_was_trained_goes_on_frozen_and_thawed(tmp_path):
    path = saved(tmp_path)
    run = runtime.load(path)
    run.train()
    run.save(tmp_path / "s.safetensors")
    command(tmp_path, "freeze", "p.pb", "--states", "head.*", "-o", "frozen.pb")
    frozen = runtime.load(tmp_path / "frozen.pb")
    frozen.load(tmp_path / "s.safetensors")
    frozen.train(checkpoint=tmp_path / "c")
    assert np.array_equal(frozen.state["head.w"], run.state["head.w"])
    assert not np.array_equal(frozen.state["encoder.w"], run.state["encoder.w"])
    again = runtime.load(tmp_path / "frozen.pb")
    again.resume(tmp_path / "c")
    assert again.states.sha256() == frozen.states.sha256()
    frozen.save(tmp_path / "t.safetensors")
    run.load(tmp_path / "t.safetensors")


def test_opened_programs_freeze_too(tmp_path):
    path = saved(tmp_path)
    program = Program.load(path)
    program.freeze("encoder.*")
    program.compile().save(tmp_path / "frozen.pb")
    again = Program.load(tmp_path / "frozen.pb")
    again.thaw("*")
    again.compile().save(tmp_path / "thawed.pb")
    assert (tmp_path / "thawed.pb").read_bytes() == path.read_bytes()


def test_what_cannot_be_frozen_is_one_sentence(tmp_path):
    program = two_layers(adam(0.1))
    assert told(OpError, lambda: program.freeze("encoder.ww")) == (
        "freeze: no parameter matches 'encoder.ww'; did you mean 'encoder.w'?"
    )
    assert told(OpError, lambda: program.freeze("step")) == (
        "freeze: no parameter matches 'step'; what it matches is not trained"
    )
    write_data(tmp_path)
    saved(tmp_path)
    done = command(tmp_path, "freeze", "p.pb", "--states", "*", "-o", "q.pb")
    assert (done.returncode, done.stderr) == (
        3,
        "compiler: p.pb: freeze: every parameter is frozen then, and nothing is left to train\n",
    )
    done = command(tmp_path, "thaw", "p.pb", "--states", "hed.w", "-o", "q.pb")
    assert (done.returncode, done.stderr) == (
        3,
        "compiler: p.pb: thaw: no parameter matches 'hed.w'; did you mean 'head.w'?\n",
    )
    assert not (tmp_path / "q.pb").exists()
    idle = two_layers(sgd(0.1), frozen=["encoder.w"])
    idle.thaw("encoder.w")
    assert "no loss trains the parameter 'encoder.w'" in told(CompileError, lambda: idle.compile(batch=4))
