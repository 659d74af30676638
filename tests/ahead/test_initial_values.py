"""The initial values of another seed, drawn by a library."""

# pyright: basic

import ctypes
from pathlib import Path

import numpy as np
import pytest
from ahead.hosts import Net, needs_cc
from ahead.test_same_bits import feeds_of, network

import prograd
from prograd import Program, initialisers, layers, ops, sgd

pytestmark = needs_cc
EXAMPLES = Path(__file__).parents[2] / "examples"


def initialise(net, seed):
    net.must("initialise", ctypes.c_int64(seed))


@pytest.mark.thorough
@pytest.mark.parametrize("options", [("--cpu", "avx2"), ("--cpu", "avx2,avx512", "--threads", "2")])
def test_the_values_of_a_seed_are_those_of_python(tmp_path, options):
    path = network(tmp_path / "network.pb")
    net = Net(path, tmp_path / "out", *options)
    rng = np.random.default_rng(0)
    for seed in (5, -(2**40), 5):
        if "--threads" in options:
            net.must("threads", 2)
        net.step("train", feeds_of(rng))
        initialise(net, seed)
        run = prograd.load(path, engine="native.avx2", threads=1, seed=seed)
        assert net.sha256() == run.states.sha256()
        feeds = feeds_of(rng)
        step = run.stepper("train")
        step(*(feeds[name] for name in run.entries["train"].feeds))
        net.step("train", feeds)
        assert net.sha256() == run.states.sha256()
    if "--threads" in options:
        net.must("threads", 1)  # its memory is freed now


@pytest.mark.thorough
def test_a_seed_of_the_convolutional_digits_is_that_of_python(tmp_path):
    net = Net(EXAMPLES / "digits_cnn.pb", tmp_path / "out", "--cpu", "avx2")
    initialise(net, 77)
    assert net.sha256() == prograd.load(EXAMPLES / "digits_cnn.pb", engine="reference", seed=77).states.sha256()


@pytest.mark.thorough
def test_a_library_without_code_for_its_initial_values_does_not_draw_them(tmp_path):
    program = Program("orthogonal", seed=1)
    x = program.input("x", "float32", ("batch", 8))
    w = program.parameter("w", (8, 8), initialisers.orthogonal())
    program.minimize(ops.mean(ops.square(ops.matmul(layers.dense(x, "a", 8), w))), sgd(0.1))
    program.compile(batch=4).save(tmp_path / "orthogonal.pb")
    net = Net(tmp_path / "orthogonal.pb", tmp_path / "out", "--cpu", "avx2")
    assert "initialise" not in (tmp_path / "out" / "orthogonal.h").read_text()
    assert net.state("w") == np.asarray(net.run.state["w"]).tobytes()
