"""Many steps in one call: the same events, states and fetches as steps that are made one by one."""

import numpy as np
import pytest

import runtime
from compiler import Program, adam, ops
from runtime.engines.engine import InMemory
from runtime.errors import NonFinite

ROWS = 50
RNG = np.random.default_rng(0)
DATA = {"x": RNG.standard_normal((ROWS, 5)).astype("f4"), "y": RNG.standard_normal((ROWS, 1))}


def program(batch: int | tuple[int, ...] = 8) -> object:
    program = Program("small")
    x, y = program.input("x", "float32", ("batch", 5)), program.input("y", "float64", ("batch", 1))
    w = program.parameter("w", (5, 1))
    program.minimize(ops.mean(ops.square(ops.cast(x @ w, dtype="float64") - y)), adam(0.1))
    return program.compile(batch=batch)


def trained(ahead: int, threads: int = 1, data: dict[str, np.ndarray] = DATA, **options: object) -> runtime.Run:
    run = runtime.Run(program((8, 2)), engine="native", threads=threads)
    run.seen = [repr(event) for event in run.events(data=data, ahead=ahead, **options)]
    return run


@pytest.mark.parametrize("threads", [1, 2])
def test_events_and_states_are_those_of_single_steps(threads: int, tmp_path):
    alone = trained(1, epochs=5)
    together = trained(1000, threads, epochs=5)
    assert together.seen == alone.seen
    for name, array in alone.states.arrays.items():
        assert together.states.arrays[name].tobytes() == array.tobytes(), name
    assert {n: a.tobytes() for n, a in together.fetched.items()} == {n: a.tobytes() for n, a in alone.fetched.items()}


def test_checkpoints_are_written_where_they_were_asked_for(tmp_path):
    events = [trained(ahead, epochs=4, checkpoint=tmp_path / str(ahead), every=5).seen for ahead in (1, 1000)]
    assert [e.replace("/1/", "/1000/") for e in events[0]] == events[1]


def test_a_loss_that_is_not_finite_is_said_of_the_right_step():
    data = {**DATA, "y": DATA["y"].copy()}
    data["y"][29] = np.inf
    sentences = []
    for ahead in (1, 1000):
        with pytest.raises(NonFinite) as error:
            trained(ahead, data=data)
        sentences.append(str(error.value))
    assert sentences[0] == sentences[1]
    assert sentences[0].startswith("step 4: row 29 of the feed 'y' has NaN or Inf: loss is inf")


def test_rows_are_taken_in_their_order_and_other_dtypes_are_left_to_single_steps():
    run = runtime.Run(program(), engine="native")
    with run.session.workspaces.lent(run.session.bindings("train")[:1], []) as lent:
        executor = lent.executor(run.session.bindings("train")[0], [])
        numbers = np.arange(ROWS)[::-1].copy()
        repeat = executor.repeated(InMemory(DATA, {}, numbers), ["loss"])
        assert repeat is not None
        assert repeat(8, 2)["loss"].shape[0] == 2
        np.testing.assert_array_equal(executor.feeds["x"], DATA["x"][numbers[16:24]])
        wide = {**DATA, "x": DATA["x"].astype("f8")}
        assert executor.repeated(InMemory(wide, {}, numbers), ["loss"]) is None


def test_rows_that_lie_in_order_are_read_there_unless_the_end_of_a_step_reads_them():
    run = runtime.Run(program(), engine="native")
    bound = run.session.bindings("train")[0]
    with run.session.workspaces.lent([bound], ["x"]) as lent:
        reading, fetching = lent.executor(bound, []), lent.executor(bound, ["x"])
        numbers = np.arange(10, ROWS)
        want = np.mean(np.square(DATA["x"][13:21].astype("f8").sum(axis=1, keepdims=True) - DATA["y"][13:21]))
        for executor, left in (reading, np.full((8, 5), 7)), (fetching, DATA["x"][13:21]):
            run.state["w"] = np.ones((5, 1), "f4")
            executor.feeds["x"][...] = 7
            repeat = executor.repeated(InMemory(DATA, {}, numbers), ["loss"])
            assert repeat is not None
            np.testing.assert_allclose(repeat(3, 1)["loss"].item(), want, rtol=1e-5)
            np.testing.assert_array_equal(executor.feeds["x"], left)


def wide() -> Program:
    """Rows that two threads take by halves."""
    program = Program("wide")
    x, y = program.input("x", "float32", ("batch", 200)), program.input("y", "float64", ("batch", 1))
    h = ops.relu(x @ program.parameter("v", (200, 64)))
    program.minimize(
        ops.mean(ops.square(ops.cast(h @ program.parameter("w", (64, 1)), dtype="float64") - y)), adam(0.1)
    )
    return program


def images() -> Program:
    """Images that a convolution takes, with what follows it."""
    program = Program("images")
    x, y = program.input("x", "float32", ("batch", 5, 5, 2)), program.input("y", "float64", ("batch", 1))
    h = ops.relu(ops.conv2d(x, program.parameter("v", (3, 3, 2, 4))))
    program.minimize(ops.mean(ops.square(ops.cast(ops.mean(h, axis=(1, 2, 3)), dtype="float64") - y[:, 0])), adam(0.1))
    return program


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("network", [wide, images])
def test_rows_of_any_form_are_those_of_single_steps(network, shuffle):
    shape = {"wide": (ROWS, 200), "images": (ROWS, 5, 5, 2)}[network.__name__]
    data = {**DATA, "x": np.random.default_rng(1).standard_normal(shape, "f4")}
    runs = [(1, 1), (1000, 1), (1000, 2)]
    seen = []
    for ahead, threads in runs:
        made = network()
        made.data("rows.safetensors", shuffle=shuffle, remainder="drop")
        run = runtime.Run(made.compile(batch=(8, 2)), engine="native", threads=threads)
        events = [repr(event) for event in run.events(data=data, ahead=ahead, epochs=3)]
        seen.append((events, {name: array.tobytes() for name, array in run.states.arrays.items()}))
    assert seen[0] == seen[1] == seen[2]
