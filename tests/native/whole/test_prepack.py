"""Values derived from states alone are recomputed when states change: every way to change them, threads, memory."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from native.bound import bind_compiled, lowered
from native.building import every_target

import runtime
from prograd import Program, Value, layers, ops, sgd
from runtime.codegen.explain import explained
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.machine import Target
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.prepacked import Prepacked
from runtime.errors import ResourceLimit
from runtime.memory.aligned import aligned_bytes
from runtime.memory.limit import MemoryLimit
from runtime.runs.state_locks import StateLocks

ROWS = 8
RNG = np.random.default_rng(7)
IMAGES = RNG.normal(size=(ROWS, 13, 13, 3)).astype("f4")
LABELS = RNG.integers(0, 5, ROWS)


def images() -> Program:
    """Its filter is packed; the scale of its batch norm and a softmax of a bias and a setting follow from states."""
    made = Program("prepacks", seed=4)
    x, label = made.input("x", "float32", ("batch", 13, 13, 3)), made.input("label", "int64", ("batch",))
    h = ops.relu(layers.batch_norm(layers.conv(x, "conv", 6, window=3), "norm"))
    bias = ops.softmax(made.parameter("bias", (5,)) * made.setting("gain", 0.5))
    logits = layers.dense(ops.mean(h, axis=(1, 2)), "out", 5) + bias
    made.minimize(ops.softmax_cross_entropy(logits, label), sgd(0.5))
    made.outputs(logits=logits)
    return made


@pytest.fixture(scope="module")
def desc():
    return images().compile(batch=ROWS).desc


def new(desc, **options) -> runtime.Run:
    return runtime.Run(desc, engine="native", **options)


def predicted(run: runtime.Run) -> np.ndarray:
    return np.asarray(run.predict(IMAGES)["logits"]).copy()


def trained(desc, steps: int = 1) -> runtime.Run:
    run = new(desc)
    for _ in range(steps):
        run.step({"x": IMAGES, "label": LABELS})
    return run


def set_state(run: runtime.Run, folder: Path) -> None:
    run.state["norm.scale"] = np.linspace(1, 2, 6, dtype="f4")


def set_filter(run: runtime.Run, folder: Path) -> None:
    run.state["conv.w"] = RNG.normal(size=run.state["conv.w"].shape).astype("f4")


def set_setting(run: runtime.Run, folder: Path) -> None:
    run.set(gain=2.0)


def make_step(run: runtime.Run, folder: Path) -> None:
    run.step({"x": IMAGES, "label": LABELS})


def train(run: runtime.Run, folder: Path) -> None:
    list(run.events(data={"x": IMAGES, "label": LABELS}, epochs=2))


def train_ahead(run: runtime.Run, folder: Path) -> None:
    rows = {"x": np.tile(IMAGES, (8, 1, 1, 1)), "label": np.tile(LABELS, 8)}
    list(run.events(data=rows, epochs=1, ahead=8))


def load(run: runtime.Run, folder: Path) -> None:
    trained(run.program).save(folder / "other.safetensors")
    run.load(folder / "other.safetensors")


def resume(run: runtime.Run, folder: Path) -> None:
    trained(run.program).save(folder / "other.safetensors")
    run.resume(folder / "other.safetensors")


def with_states_of(run: runtime.Run) -> runtime.Run:
    """A run that has not predicted yet."""
    fresh = new(run.program)
    for name in fresh.state:
        fresh.state[name] = run.state[name]
    return fresh


WAYS = [set_state, set_filter, set_setting, make_step, train, train_ahead, load, resume]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", WAYS)
def test_predictions_follow_every_change_of_the_states(desc, change: Callable[..., None], tmp_path: Path):
    run = new(desc)
    before = predicted(run)
    np.testing.assert_array_equal(predicted(run), before)
    change(run, tmp_path)
    after = predicted(run)
    np.testing.assert_array_equal(after, predicted(with_states_of(run)))
    assert not np.array_equal(after, before)


@pytest.mark.parametrize("change", WAYS)
def test_a_change_that_nobody_notes_would_be_seen(
    desc, change: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Check that the previous test notices each of the ways above."""
    monkeypatch.setattr(StateLocks, "version", lambda self: 0)
    run = new(desc)
    predicted(run)
    change(run, tmp_path)
    assert not np.array_equal(predicted(run), predicted(with_states_of(run)))


def test_what_is_prepacked_is_made_once_for_all_predictions(desc, monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []
    count_calls(monkeypatch, made)
    run = new(desc)
    for _ in range(3):
        run.predict(IMAGES)
        run.evaluate({"x": IMAGES, "label": LABELS})
    assert len(made) == 2  # for either entry
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: run.predict(IMAGES), range(40)))
    assert len(made) == 2
    make_step(run, Path())
    run.predict(IMAGES)
    assert len(made) == 3


def count_calls(monkeypatch: pytest.MonkeyPatch, made: list[int]) -> None:
    """Note each time that something is prepacked."""
    require = Prepacked.require

    def counted(self: Prepacked, version, make):
        require(self, version, lambda: (made.append(1), make()))

    monkeypatch.setattr(Prepacked, "require", counted)


def test_who_changes_states_and_predicts_in_one_turn_sees_the_change(desc):
    run = new(desc)
    before = predicted(run)
    with run.states.locks.exclusive():
        np.testing.assert_array_equal(predicted(run), before)
        run.states.arrays["norm.bias"][...] = 3
        run.states.arrays["norm.scale"][...] = 2
        inside = predicted(run)
    assert not np.array_equal(inside, before)
    np.testing.assert_array_equal(predicted(run), inside)


def test_a_step_outside_of_any_turn_keeps_nothing(desc, monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []
    count_calls(monkeypatch, made)
    run = new(desc)
    bound = run.session.bindings("predict")[0]
    executor = run.session.workspaces.executor(bound)
    executor.feeds["x"][...] = IMAGES
    executor.step()
    run.states.arrays["norm.scale"][...] = 2
    executor.feeds["x"][...] = IMAGES
    executor.step()
    assert len(made) == 2
    np.testing.assert_array_equal(executor.fetches["logits"], predicted(run))


def test_a_step_that_fetches_more_has_its_own(desc):
    run = new(desc)
    bound = run.session.bindings("predict")[0]
    [softmax] = [op.outputs[0] for op in bound.block.ops if op.type == "softmax"]
    for gain in (0.5, 2.0):
        run.set(gain=gain)
        with run.states.locks.shared(), run.session.workspaces.lent([bound], [softmax]) as lent:
            executor = lent.executor(bound, [softmax])
            executor.feeds["x"][...] = IMAGES
            executor.step()
            np.testing.assert_array_equal(executor.fetches["logits"], predicted(run))
            bias = np.exp(run.state["bias"] * gain)
            np.testing.assert_allclose(executor.fetches[softmax], bias / bias.sum(), rtol=1e-5)


def test_what_was_not_made_whole_is_made_again(desc):
    class Cut(Exception):
        pass

    def cut():
        raise Cut

    prepacked, made = Prepacked(64, MemoryLimit()), list[int]()
    for make in (cut, lambda: made.append(1)):
        with suppress(Cut):
            prepacked.require(lambda: 5, make)
    prepacked.require(lambda: 5, cut)
    assert made == [1]


@pytest.mark.parametrize("threads", [1, 2])
def test_predictions_beside_a_training_are_those_of_some_step(desc, threads: int):
    steps = 30
    run, alone = new(desc), new(desc)
    answers = [predicted(alone)]
    for _ in range(steps):
        make_step(alone, Path())
        answers.append(predicted(alone))
    known = {answer.tobytes(): number for number, answer in enumerate(answers)}
    done = Event()

    def watch() -> list[int]:
        seen = [known[predicted(run).tobytes()]]
        while not done.is_set():
            seen.append(known[predicted(run).tobytes()])
        return [*seen, known[predicted(run).tobytes()]]

    with ThreadPoolExecutor(4) as pool:
        watching = [pool.submit(watch) for _ in range(4)]
        try:
            for _ in range(steps):
                make_step(run, Path())
        finally:
            done.set()
        for seen in (each.result(60) for each in watching):
            assert seen == sorted(seen)
            assert seen[-1] == steps
    assert run.state_sha256 == alone.state_sha256


def test_two_runs_of_one_program_do_not_share_what_is_prepacked(desc):
    one, two = new(desc), trained(desc)
    first, second = predicted(one), predicted(two)
    assert not np.array_equal(first, second)
    for _ in range(2):
        np.testing.assert_array_equal(predicted(one), first)
        np.testing.assert_array_equal(predicted(two), second)


# Words, memory, bits.


def recurrent() -> Program:
    made = Program("recurrent", seed=4)
    x = made.input("x", "float32", ("batch", 5, 24))
    made.outputs(y=layers.lstm(x, "lstm", 40)[0])
    return made


def wide() -> Program:
    made = Program("wide", seed=4)
    x = made.input("x", "float32", ("batch", 512))
    turned = ops.transpose(made.parameter("turned", (100, 256)), axis=(1, 0))
    made.outputs(y=ops.relu(x @ made.parameter("w", (512, 256))) @ ops.relu(turned))
    return made


SUBJECTS = {"images": (images, ROWS), "recurrent": (recurrent, 8), "wide": (wide, 768)}


def steps_of(name: str, threads: int) -> tuple[runtime.Run, list[LoweredBlock]]:
    """A step that prepacks, and one that does not."""
    write, rows = SUBJECTS[name]
    run = new(write().compile(batch=rows).desc)
    [bound, *_] = run.session.bindings("predict")
    return run, [lowered(bound.block, (), this_machine(), threads, prepacks=prepacks) for prepacks in (True, False)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", SUBJECTS)
def test_bits_are_those_of_a_step_that_makes_all(name: str, threads: int):
    run, steps = steps_of(name, threads)
    results: list[dict[str, bytes]] = []
    for step in steps:
        arena, packed = aligned_bytes(step.memory.arena_bytes), aligned_bytes(step.memory.packed_bytes)
        compiled = bind_compiled(step, run.states.arrays, arena, packed=packed)
        packed[:] = 0xAA
        compiled.prepack()
        kept = packed.tobytes()
        desc = step.nodes.block.desc
        for _ in range(2):
            for feed in step.nodes.feeds:
                compiled.arrays[feed][...] = np.random.default_rng(1).normal(size=compiled.arrays[feed].shape)
            compiled()
            results.append({fetch.name: compiled.arrays[fetch.tensor].tobytes() for fetch in desc.fetches})
            assert packed.tobytes() == kept  # nothing else lies there
            arena[:] = 0xAA
    assert results[0]
    assert all(result == results[0] for result in results)


@pytest.mark.sampled(3)
@every_target
@pytest.mark.parametrize(("rows", "depth", "columns"), [(16, 300, 500), (33, 1000, 97), (150, 513, 40)])
def test_products_of_some_rows_by_prepacked_weights(target: Target, rows: int, depth: int, columns: int):
    """Multiply by plain and by transposed weights, and by values derived from them."""
    made = Program("rows", seed=1)
    x = made.input("x", "float32", ("batch", depth))
    b = made.parameter("b", (columns,))
    w, t = made.parameter("w", (depth, columns)), made.parameter("t", (columns, depth))
    made.outputs(y=ops.relu(x @ w + b), z=ops.matmul(x, t, transpose_b=True))
    run = new(made.compile(batch=rows).desc)
    block = run.session.bindings("predict")[0].block
    for name, state in run.states.arrays.items():
        if state.ndim:
            state[...] = np.random.default_rng(len(name)).normal(size=state.shape)
    results: list[list[bytes]] = []
    for threads in (1, 2, 3):
        step = lowered(block, (), target, threads, prepacks=True)
        assert step.memory.packed_bytes >= 8 * depth * columns
        arena, packed = aligned_bytes(step.memory.arena_bytes), aligned_bytes(step.memory.packed_bytes)
        compiled = bind_compiled(step, run.states.arrays, arena, packed=packed)
        [feed] = step.nodes.feeds
        given = np.random.default_rng(9).normal(size=(rows, depth)).astype("f4")
        compiled.arrays[feed][...] = given
        compiled.prepack()
        compiled()
        found = [compiled.arrays[fetch.tensor] for fetch in block.fetches]
        state = {name: array.astype("f8") for name, array in run.states.arrays.items()}
        y = np.maximum(given.astype("f8") @ state["w"] + state["b"], 0)
        np.testing.assert_allclose(found[0], y, atol=1e-4)
        np.testing.assert_allclose(found[1], given.astype("f8") @ state["t"].T, atol=1e-4)
        results.append([array.tobytes() for array in found])
    assert results[1:] == results[:-1]


@pytest.mark.parametrize("name", SUBJECTS)
def test_it_is_shown_and_its_memory_is_known(name: str):
    _, (step, plain) = steps_of(name, 2)
    text = "\n".join(explained(step))
    assert "work item prepacked" in text or "work items prepacked" in text
    assert f"prepacked {step.memory.packed_bytes} bytes, of states alone" in text
    assert step.memory.packed_bytes > 0
    assert plain.memory.packed_bytes == 0
    assert "prepacked" not in "\n".join(explained(plain))


def test_groups_that_read_states_alone_are_no_part_of_a_step(desc):
    step = steps_of("images", 1)[1][0]
    lines = list(explained(step))
    assert lines[0] == "prepacked"
    apart = lines[1 : lines.index("phase 1")]
    assert [line for line in apart if "sqrt" in line]
    assert [line for line in apart if "softmax" in line]
    assert not [line for line in lines[lines.index("phase 1") :] if "sqrt" in line]


def test_an_entry_that_updates_states_prepacks_nothing(desc):
    bound = new(desc).session.bindings("train")[0]
    assert lowered(bound.block, (), this_machine(), prepacks=True).memory.packed_bytes == 0


def drawn(x: Value, program: Program) -> Value:
    return x + ops.softmax(ops.uniform.on(program)(shape=(5,)))


def looked_up(x: Value, program: Program) -> Value:
    places = program.buffer("places", (5,), dtype="int64")
    return x + ops.gather(program.parameter("table", (9,)), places)


@pytest.mark.parametrize("write", [drawn, looked_up])
def test_what_is_random_or_may_be_refused_is_made_in_every_step(write: Callable[[Value, Program], Value]):
    program = Program("each time")
    x = program.input("x", "float32", ("batch", 5))
    program.outputs(y=write(x, program))
    bound = new(program.compile(batch=4).desc).session.bindings("predict")[0]
    assert lowered(bound.block, (), this_machine(), prepacks=True).memory.packed_bytes == 0


def test_it_counts_for_the_limit_of_memory_once_for_all_threads(desc):
    run = new(desc, max_memory=1 << 24)
    run.predict(IMAGES)
    packed = run.session.engine.needs(run.session.bindings("predict")[0]).packed
    assert 0 < packed < 1 << 16
    with run.states.locks.shared(), run.session.workspaces.lent(run.session.bindings("predict")[:1]):
        one = run.memory.taken
        with ThreadPoolExecutor(1) as pool:
            pool.submit(run.predict, IMAGES).result(60)
        arena = run.session.engine.needs(run.session.bindings("predict")[0]).arena
        assert arena <= run.memory.taken - one < arena + packed
    with pytest.raises(
        ResourceLimit, match="with what is prepacked of its states the run needs 100 bytes, and the limit is 99 bytes"
    ):
        Prepacked(100, MemoryLimit(99))


def test_profile_has_every_group(desc):
    run = new(desc)
    bound = run.session.bindings("predict")[0]
    executor = run.session.workspaces.executor(bound)
    spells = executor.profile_step()
    assert {spell.part for spell in spells} == set(range(len(executor.parts)))
