"""A library computes the bits of the native engine: every fetch of every step, and every state."""

# pyright: basic

import shutil
from pathlib import Path

import numpy as np
import pytest
from ahead.hosts import Net, needs_cc

import prograd
from prograd import Program, adam, layers, momentum, ops
from runtime.entries import bound_entries

pytestmark = needs_cc
EXAMPLES = Path(__file__).parents[2] / "examples"


def random_feeds(run, entry, rng):
    """Return arrays for the feeds of an entry's largest step."""
    bound = bound_entries(run.program, entry)[0]
    found = {}
    for name, feed in bound.feeds.items():
        shape, dtype = feed.type.static_shape, feed.type.dtype
        found[name] = (
            rng.standard_normal(shape).astype(dtype) if "float" in dtype else rng.integers(0, 10, shape).astype(dtype)
        )
    return found


def assert_twins(path, folder, instructions, steps, threads=1):
    """Make the steps of all entries in both, in turns, and compare what they fetch and keep."""
    net = Net(path, folder, "--cpu", instructions, "--threads", str(threads))
    if threads > 1:
        net.must("threads", threads)
    run = prograd.load(path, engine=f"native.{instructions}", threads=threads)
    run.state["total_steps"] = 100
    net.set("total_steps", np.array(100))
    rng = np.random.default_rng(5)
    for _ in range(steps):
        for entry in run.entries:
            feeds = random_feeds(run, entry, rng)
            stepper = run.stepper(entry)
            net.code("begin_evaluation")
            wanted, found = stepper(**feeds), net.step(entry, feeds)
            for name, array in found.items():
                assert np.asarray(wanted[name]).astype(array.dtype).tobytes() == array.tobytes(), (entry, name)
    assert net.sha256() == run.states.sha256()
    if threads > 1:
        net.must("threads", 1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["linear_regression", "digits_mlp", "lstm_series", "pendulum"])
def test_examples_have_the_bits_of_the_native_engine(tmp_path, name):
    assert_twins(EXAMPLES / f"{name}.pb", tmp_path / "out", "avx2", 3)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["digits_cnn", "resnet", "characters", "decoder", "sharpness", "gan"])
@pytest.mark.parametrize("instructions", ["avx2", "sse2"])
def test_large_examples_have_the_bits_of_the_native_engine(tmp_path, name, instructions):
    assert_twins(EXAMPLES / f"{name}.pb", tmp_path / "out", instructions, 3)


@pytest.mark.thorough
def test_code_without_a_fused_multiply_add_has_the_bits_of_that_engine(tmp_path):
    assert_twins(EXAMPLES / "digits_mlp.pb", tmp_path / "out", "sse2", 2)


@pytest.mark.thorough
def test_two_threads_have_the_bits_of_one(tmp_path):
    assert_twins(EXAMPLES / "digits_mlp.pb", tmp_path / "out", "avx2", 20, threads=2)


def network(path, *, mixed=None, width=64):
    """Write a network with dropout, a frozen layer, momentum and a metric."""
    program = Program("network", seed=3)
    x = program.input("x", "float32", ("batch", 40))
    label = program.input("label", "int32", ("batch",))
    h = ops.dropout(ops.relu(layers.dense(x, "first", width)), ratio=0.25)
    logits = layers.dense(ops.tanh(layers.dense(h, "second", width)), "third", 10)
    program.freeze("second.*")
    program.minimize(ops.softmax_cross_entropy(logits, label), momentum(rate=0.05))
    program.metrics(accuracy=ops.accuracy(logits, label))
    program.outputs(chances=ops.softmax(logits))
    program.compile(batch=32, mixed=mixed).save(path)
    return path


def feeds_of(rng, rows=32):
    """Return rows for the network."""
    return {
        "x": rng.standard_normal((rows, 40)).astype(np.float32),
        "label": rng.integers(0, 10, rows).astype(np.int32),
    }


@pytest.mark.thorough
@pytest.mark.parametrize("mixed", ["bfloat16", prograd.mixed("bfloat16", order="pairs"), None])
def test_mixed_precision_has_the_bits_of_the_native_engine(tmp_path, mixed):
    assert_twins(network(tmp_path / "network.pb", mixed=mixed), tmp_path / "out", "avx2", 4)


@pytest.mark.thorough
def test_a_prediction_sees_the_weights_of_the_last_step(tmp_path):
    path = network(tmp_path / "network.pb")
    net, rng = Net(path, tmp_path / "out", "--cpu", "avx2"), np.random.default_rng(1)
    run = prograd.load(path, engine="native.avx2", threads=1)
    for _ in range(3):
        feeds = feeds_of(rng)
        run.stepper("train")(**feeds)
        net.step("train", feeds)
        wanted = run.stepper("predict")(x=feeds["x"])
        assert net.step("predict", feeds)["chances"].tobytes() == np.asarray(wanted["chances"]).tobytes()
    weights = rng.standard_normal((40, 64)).astype(np.float32)
    run.state["first.w"] = weights
    net.set("first.w", weights)
    wanted = run.stepper("predict")(x=feeds["x"])
    assert net.step("predict", feeds)["chances"].tobytes() == np.asarray(wanted["chances"]).tobytes()


@pytest.mark.thorough
def test_a_step_of_one_row_is_a_function_of_its_own(tmp_path):
    path = network(tmp_path / "network.pb")
    net, rng = Net(path, tmp_path / "out", "--cpu", "avx2"), np.random.default_rng(1)
    feeds = feeds_of(rng)
    all_rows = net.step("predict", feeds)["chances"]
    one = net.step("predict", {name: array[4:5] for name, array in feeds.items()}, "_1")["chances"]
    assert np.allclose(one, all_rows[4:5], atol=1e-6)


@pytest.mark.thorough
def test_totals_of_an_evaluation_are_apart_from_those_of_training(tmp_path):
    net, rng = Net(EXAMPLES / "digits_mlp.pb", tmp_path / "out", "--cpu", "avx2"), np.random.default_rng(1)
    batches = [random_feeds(net.run, "evaluate", rng) for _ in range(4)]
    means = []
    for batch in batches:
        net.code("begin_evaluation")
        means.append(float(net.step("evaluate", batch)["accuracy"]))
    net.code("begin_evaluation")
    totals = [float(net.step("evaluate", batch)["accuracy"]) for batch in batches]
    assert np.allclose(totals, np.cumsum(means) / np.arange(1, 5))
    net.set("total_steps", np.array(10))
    before = net.state("accuracy.count")
    assert np.frombuffer(before, np.int64) == 0  # those of training
    net.step("train", batches[0])
    net.step("evaluate", batches[1])
    assert np.frombuffer(net.state("accuracy.count"), np.int64) == 32
    net.code("begin_epoch")
    assert np.frombuffer(net.state("accuracy.count"), np.int64) == 0


def looping(path):
    """Write a program with a loop, a branch that data decides, and a scan, all with gradients."""
    program = Program("looping", seed=1)
    x = program.input("x", "float32", ("batch", 16))
    w = program.parameter("w", (16, 16), prograd.he_normal())
    h = ops.cond(ops.sum(x) > 0, lambda: ops.tanh(x @ w), lambda: ops.relu(x @ w) * 0.5)
    h, _ = ops.while_loop(lambda c: ops.sum(c * c) < 90.0, lambda c: ops.sin(c @ w) + c, h, max_trips=6)
    columns = ops.transpose(h)  # their number is known; that of rows is not
    last, saved = ops.scan(lambda c, column: (ops.tanh(c * 0.5 + column), c), columns[0] * 0.0, columns)
    program.minimize(ops.mean(saved * saved) + ops.mean(last), adam(rate=0.01))
    program.outputs(h=h)
    program.compile(batch=32).save(path)
    return path


@pytest.mark.thorough
def test_loops_and_branches_come_along(tmp_path):
    assert_twins(looping(tmp_path / "looping.pb"), tmp_path / "out", "avx2", 6)


@pytest.mark.thorough
def test_two_instances_are_independent(tmp_path):
    path = network(tmp_path / "network.pb")
    one, rng = Net(path, tmp_path / "out", "--cpu", "avx2"), np.random.default_rng(1)
    other = Net(path, tmp_path / "out")
    before = other.sha256()
    one.step("train", feeds_of(rng))
    assert other.sha256() == before != one.sha256()


@pytest.mark.thorough
def test_equal_programs_give_equal_files(tmp_path):
    path = network(tmp_path / "network.pb")
    first, second = (Net(path, tmp_path / name, "--cpu", "avx2").folder for name in ("first", "second"))
    files = sorted(each.relative_to(first) for each in first.rglob("*") if each.is_file())
    assert len(files) > 10
    for each in files:
        if each.suffix != ".so":  # the system's linker writes it
            assert (first / each).read_bytes() == (second / each).read_bytes(), each
    shutil.rmtree(first)
