"""Steps that compute their batch in shards: a loop written by hand, and the same network without shards, judge them."""

import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import runtime
from compiler import CompileError, Program, adam, global_norm, metrics, ops, sgd
from prograd import layers
from prograd_proto.files import load

ENGINES = ("reference", "native")
ROWS, WIDTH = 32, 64


def rows(count: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((count, WIDTH)).astype("float32"), "label": rng.integers(0, 10, count)}


def network(loss="labels", *, dropout=0.3, norm=False, clip=True, **options) -> Program:
    program = Program("network", seed=1)
    x, label = program.input("x", "float32", ("batch", WIDTH)), program.input("label", "int64", ("batch",))
    h = ops.dropout(ops.relu(layers.dense(x, "hidden", WIDTH)), ratio=dropout)
    h = layers.batch_norm(h, "norm") if norm else h
    logits = layers.dense(h, "output", 10)
    losses = {
        "labels": lambda: ops.cross_entropy(logits, label, ignored=-1),
        "mean": lambda: ops.mean(ops.square(logits)),
        "sum": lambda: ops.sum(ops.square(logits)),
        "pairs": lambda: ops.mean(ops.square(logits @ ops.transpose(logits, axis=(1, 0)))),
    }
    limit = global_norm(0.5) if clip else None
    program.minimize(losses[loss](), sgd(0.5), clip=limit, **options)
    if loss == "labels":
        program.metrics(accuracy=metrics.accuracy(logits, label))
    return program


def trained(program: Program, feeds, engine: str, *, threads: int = 1, steps: int = 3, **sizes):
    with closing(runtime.Run(program.compile(**sizes), engine=engine, threads=threads)) as run:
        feeds = {name: feeds[name] for name in run.entries["train"].feeds}
        for _ in range(steps):
            fetched = run.step(feeds)
        states = {name: array.copy() for name, array in run.states.arrays.items()}
        return states, {name: np.array(value) for name, value in fetched.items()}, run.state_sha256


def require_close(got, wanted, tolerance=2e-6) -> None:
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shards", [1, 2, 8, 32])
@pytest.mark.parametrize("loss", ["labels", "mean"])
def test_shards_train_as_the_whole_batch_does_with_the_same_dropout_masks(loss, shards, engine):
    feeds = rows()
    whole = trained(network(loss), feeds, engine, batch=ROWS)
    cut = trained(network(loss), feeds, engine, batch=ROWS, shards=shards)
    require_close(cut[0], whole[0])
    require_close(cut[1], whole[1])


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_ignored_labels_count_in_no_shard_even_if_a_shard_has_no_other(engine):
    feeds = rows()
    feeds["label"][:9] = -1  # all of the first shard of eight, and a part of the third
    feeds["label"][17::3] = -1
    whole = trained(network(), feeds, engine, batch=ROWS)
    cut = trained(network(), feeds, engine, batch=ROWS, shards=8)
    require_close(cut[0], whole[0])
    require_close(cut[1], whole[1])


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("loss", ["labels", "mean"])
def test_a_smaller_step_has_full_shards_and_a_smaller_one(loss, engine):
    feeds = rows(22)
    whole = trained(network(loss), feeds, engine, batch=(ROWS, 22))
    cut = trained(network(loss), feeds, engine, batch=(ROWS, 22), shards=8)
    require_close(cut[0], whole[0])


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_the_bits_of_shards_do_not_depend_on_threads(engine):
    feeds = rows()
    one, two = (trained(network(norm=True), feeds, engine, threads=n, batch=ROWS, shards=4)[2] for n in (1, 2))
    assert one == two


def by_hand(w, x, scale, shards, rate):
    """A step of descent by the mean of shards' gradients of mean((scale * norm(x w))**4), added as a balanced tree."""
    grads, means = [], []
    for part in np.split(x, shards):
        y = part @ w
        mean, deviation = y.mean(0), np.sqrt(y.var(0) + 1e-5)
        unit = (y - mean) / deviation
        dunit = 4 * unit**3 * scale / unit.size
        dy = (dunit - dunit.mean(0) - unit * (dunit * unit).mean(0)) / deviation
        grads.append(part.T @ dy)
        means.append(mean)
    while len(grads) > 1:
        grads = [a + b for a, b in zip(grads[::2], grads[1::2], strict=True)]
    return w - rate * grads[0] / shards, np.mean(means, 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_batch_norm_normalises_a_shard_and_its_running_statistics_are_means_over_shards(engine):
    program = Program("norm", seed=3)
    x = program.input("x", "float64", ("batch", 8))
    w = program.parameter("w", (8, 6), dtype="float64")
    mean = program.buffer("mean", (6,), dtype="float64")
    variance = program.buffer("variance", (6,), dtype="float64")
    scale, bias = (ops.full.on(program)(shape=(6,), value=v, dtype="float64") for v in (1.0, 0.0))
    y, new_mean, new_variance, *_ = ops.batch_norm(x @ w, scale, bias, mean, variance, momentum=0.0)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    program.minimize(ops.mean(ops.square(ops.square(y))), sgd(0.1))
    feed = np.random.default_rng(5).standard_normal((32, 8)) ** 3
    with closing(runtime.Run(program.compile(batch=32, shards=4), engine=engine)) as run:
        before = run.states.arrays["w"].copy()
        run.step({"x": feed})
        wanted, running = by_hand(before, feed, 1.0, 4, 0.1)
        np.testing.assert_allclose(run.states.arrays["w"], wanted, rtol=1e-9)
        np.testing.assert_allclose(run.states.arrays["mean"], running, rtol=1e-9, atol=1e-12)


def test_gradients_of_shards_are_added_in_a_balanced_tree():
    """Three gradients that add to another number in every other order."""
    program = Program("tree", seed=1)
    x = program.input("x", "float32", ("batch",))
    w = program.parameter("w", (), dtype="float32")
    program.minimize(ops.mean(x * w), sgd(1.0))
    feed = np.array([1e8, 1.0, -1e8, 1.0], "float32")
    with closing(runtime.Run(program.compile(batch=4, shards=4))) as run:
        before = run.states.arrays["w"].copy()
        run.step({"x": feed})
        total = (feed[0] + feed[1]) + (feed[2] + feed[3])
        assert run.states.arrays["w"] == before - total / np.float32(4)


def test_activations_take_the_memory_of_a_shard():
    def arena(**options) -> int:
        program = Program("wide", seed=1)
        x, label = program.input("x", "float32", ("batch", 16)), program.input("label", "int64", ("batch",))
        h = x
        for number in range(4):
            h = ops.tanh(layers.dense(h, f"hidden{number}", 32))
        program.minimize(ops.cross_entropy(layers.dense(h, "output", 4), label), sgd(0.1))
        train = next(e for e in program.compile(batch=1024, **options).desc.entries if e.name == "train")
        return train.bindings[0].plan.arena_bytes

    assert arena(shards=8) < arena() / 3.5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_saved_file_trains_in_shards_with_the_rows_that_are_left(engine, tmp_path):
    from safetensors.numpy import save_file

    save_file(rows(54), tmp_path / "rows.safetensors")
    trained, products = {}, {}
    for name, options in {"whole": {}, "shards": {"shards": 4}}.items():
        program = network()
        program.data("rows.safetensors", splits={"train": slice(0, 54)}, shuffle=True, remainder="partial")
        program.training(epochs=2)
        program.compile(batch=ROWS, folder=tmp_path, **options).save(tmp_path / f"{name}.pb")
        desc = load(tmp_path / f"{name}.pb")
        train = next(entry for entry in desc.entries if entry.name == "train")
        assert [binding.dims[0].size for binding in train.bindings] == [32, 22]
        kinds = [[op.type for op in desc.blocks[binding.block].ops] for binding in train.bindings]
        assert all("over_shards" not in each for each in kinds)
        products[name] = [each.count("matmul") for each in kinds]
        with closing(runtime.Run(desc, tmp_path, engine=engine)) as run:
            run.train()
            trained[name] = {state: array.copy() for state, array in run.states.arrays.items()}
    assert products["shards"] == [4 * products["whole"][0], 3 * products["whole"][1]], "32 = 4 x 8 and 22 = 8 + 8 + 6"
    require_close(trained["shards"], trained["whole"], 1e-5)


def refusal(program: Program, **options) -> str:
    with pytest.raises(CompileError) as caught:
        program.compile(**options)
    return str(caught.value)


def test_what_shards_cannot_keep_is_refused():
    assert refusal(network(), batch=ROWS, shards=5) == (
        "split_batch: shards=5: batch=32 rows do not divide into 5 shards of equal size"
    )
    assert refusal(network(), batch=ROWS, shards=65) == "shards=65; a batch has 1 to 64 shards"
    assert refusal(network(accumulate=2), batch=ROWS, shards=4) == (
        "shards=4: the program also has accumulate; shards are computed one after another in a step, so "
        "leave accumulate out and multiply the batch and the shards by it"
    )
    said = refusal(network("sum"), batch=ROWS, shards=4)
    assert said.startswith("shards=4: the loss %sum_")
    assert said.endswith("; take ops.mean, or state minimize(weight=...)")


def test_a_loss_over_pairs_of_rows_is_told_that_shards_lack_some(caplog: pytest.LogCaptureFixture):
    network("pairs").compile(batch=ROWS, shards=1)
    network("mean").compile(batch=ROWS, shards=4)
    assert not caplog.messages
    network("pairs").compile(batch=ROWS, shards=4)
    [said] = caplog.messages
    assert re.sub(r"_\d+", "", said) == (
        "shards=4: the loss %mean reads %square: float32[batch, batch], pairs of rows of the batch, and each shard has "
        "those of its own rows alone, so the loss is another than that of the whole batch"
    )


def test_reports_and_updates_without_a_mean_over_shards_are_refused():
    program = network("mean")
    x = program.input("more", "float32", ("batch",))
    program.fetch("largest", ops.max(x), over="last")
    assert refusal(program, batch=ROWS, shards=4) == (
        "shards=4: training reports 'largest', float32[], of which shards have no mean"
    )
    program = network("mean")
    seen = program.buffer("seen", (), dtype="float32")
    program.update(seen, seen + ops.max(program.input("more", "float32", ("batch",))))
    assert refusal(program, batch=ROWS, shards=4) == (
        "shards=4: the new value of the state 'seen' depends on all rows of the batch"
    )


def test_a_program_without_rows_has_no_shards():
    program = Program("alone", seed=1)
    w = program.parameter("w", (3,))
    program.minimize(ops.mean(ops.square(w)), adam(0.1))
    assert refusal(program, shards=2) == (
        "shards=2: the program trains on no rows, whose number is a symbol of all inputs"
    )


def test_the_program_of_the_page_about_machines_compiles(capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).parents[2] / "docs" / "machines.md").read_text(encoding="utf-8")
    [script] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(script, {})
    assert "[256, 64]" in capsys.readouterr().out
