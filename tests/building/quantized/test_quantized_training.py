"""Training with the numbers that integers stand for: steps by hand, ranges, bits after `quantize`, errors."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building.quantized.test_int8 import ROWS, net
from safetensors.numpy import load_file, save_file
from subjects.commands import told

import prograd
from compiler.__main__ import main as compiler
from compiler.build.compiled import compile_program
from compiler.build.quantized_training import with_qat
from compiler.passes.pipeline import PASSES
from prograd import CompileError, OpError, Program, layers, ops, sgd
from runtime.__main__ import main as runtime

ROOT = Path(__file__).parents[3]
ENGINES = ["reference", "native"]
RATE = 0.1

Array = np.ndarray[Any, np.dtype[Any]]


# One step by hand.


def perceptron() -> Program:
    program = Program("perceptron", seed=1)
    x, y = program.input("x", "float32", ("batch", 24)), program.input("y", "float32", ("batch", 5))
    hidden = ops.relu(x @ program.parameter("w", (24, 16)))
    prediction = hidden @ program.parameter("v.w", (16, 5))
    program.minimize(ops.mean((prediction - y) * (prediction - y)), sgd(RATE))
    program.outputs(prediction=prediction)
    return program


def of_weight(w: Array) -> Array:
    """The numbers of the codes of a weight, in float64."""
    scale = np.abs(w).max(0) / 127
    return np.rint(w / scale) * scale


def of_operand(x: Array, ends: tuple[float, float]) -> Array:
    scale = (ends[1] - ends[0]) / 255
    zero = np.rint(-ends[0] / scale)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale


def moved(ends: tuple[float, float] | None, x: Array) -> tuple[float, float]:
    seen = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    return seen if ends is None else (0.99 * ends[0] + 0.01 * seen[0], 0.99 * ends[1] + 0.01 * seen[1])


@pytest.mark.parametrize("engine", ENGINES)
def test_steps_read_numbers_of_codes_and_gradients_pass_through_them(engine: str):
    run = prograd.Run(perceptron().compile(batch=32, qat="int8"), engine=engine)
    numbers = np.random.default_rng(0)
    ranges: list[tuple[float, float] | None] = [None, None]
    for step in range(4):
        x = numbers.normal(0.3, 1 + step, (32, 24)).astype("f4")
        y = numbers.normal(size=(32, 5)).astype("f4")
        w, v = (np.array(run.state[name], "f8") for name in ("w", "v.w"))
        run.step({"x": x, "y": y})
        ranges[0] = moved(ranges[0], x)
        first, second = of_operand(x, ranges[0]), of_weight(w)
        hidden = np.maximum(first @ second, 0)
        ranges[1] = moved(ranges[1], hidden)
        third, fourth = of_operand(hidden, ranges[1]), of_weight(v)
        back = 2 * (third @ fourth - y) / y.size
        through = (back @ fourth.T) * (hidden > 0)
        np.testing.assert_allclose(run.state["v.w"], v - RATE * third.T @ back, atol=2e-6)
        np.testing.assert_allclose(run.state["w"], w - RATE * first.T @ through, atol=2e-6)
        for name, ends in (("w", ranges[0]), ("v.w", ranges[1])):
            found = [float(run.state[f"{name}.{end}"]) for end in ("input_least", "input_most")]
            np.testing.assert_allclose(found, ends, rtol=1e-5)


def test_steps_multiply_by_transposes_with_a_scale_for_each_row():
    program = Program("transposed", seed=1)
    x, w = program.input("x", "float32", ("batch", 24)), program.parameter("w", (16, 24))
    program.minimize(ops.mean(ops.square(ops.matmul(x, w, transpose_b=True))), sgd(RATE))
    run = prograd.Run(program.compile(batch=32, qat="int8"))
    rows, before = np.random.default_rng(1).normal(size=(32, 24)).astype("f4"), np.array(run.state["w"], "f8")
    run.step({"x": rows})
    first = of_operand(rows, moved(None, rows))
    y = first @ of_weight(before.T)
    np.testing.assert_allclose(run.state["w"], before - RATE * (2 * y / y.size).T @ first, atol=2e-6)


def test_two_products_of_a_weight_move_its_range_one_after_the_other():
    program = Program("twice", seed=1)
    x, w = program.input("x", "float32", ("batch", 4)), program.parameter("w", (4, 4))
    program.minimize(ops.mean(ops.square((x @ w) @ w)), sgd(0.0))
    run = prograd.Run(program.compile(batch=8, qat="int8"))
    rows = np.random.default_rng(1).normal(size=(8, 4)).astype("f4")
    run.step({"x": rows})
    first = moved(None, rows)
    inner = of_operand(rows, first) @ of_weight(np.array(run.state["w"]))
    found = [float(run.state[f"w.{end}"]) for end in ("input_least", "input_most")]
    np.testing.assert_allclose(found, moved(first, inner), rtol=1e-5)


# The same bits after `quantize`.


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learned")
    save_file(ROWS, str(folder / "rows.safetensors"))
    net().compile(batch=32, folder=folder).save(folder / "net.pb")
    net().compile(batch=32, folder=folder, qat=prograd.qat("int8", keep=["head"])).save(folder / "learns.pb")
    run = prograd.load(folder / "learns.pb")
    run.train()
    run.save(folder / "t.safetensors")
    return folder


@pytest.fixture
def home(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in trained.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)


COMPILE = "compiler compile net.pb --qat int8 --keep head -o learns.pb"
QUANTIZE = "compiler quantize learns.pb --load t.safetensors -o small.pb"


@pytest.mark.usefixtures("home")
def test_the_commands_of_the_page_learn_and_write_integers(capsys: pytest.CaptureFixture[str]):
    page = (ROOT / "docs/int8.md").read_text(encoding="utf-8")
    Path("learns.pb").unlink()
    Path("t.safetensors").unlink()
    for command in (COMPILE, "runtime execute learns.pb --save t.safetensors", QUANTIZE):
        assert f"    $ {command}\n" in page
        name, *words = command.split()
        assert {"compiler": compiler, "runtime": runtime}[name]([*words, "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("weight    operand")
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["first.w", "deep.w", "hidden.w"]
    assert prograd.load("small.pb").state["first.w.codes"].dtype == np.uint8
    assert not any("input_least" in name or "input_most" in name for name in prograd.load("small.pb").state)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("engine", ENGINES)
def test_quantize_gives_the_bits_that_the_evaluations_of_training_saw(engine: str):
    assert compiler(QUANTIZE.split()[1:]) == 0
    before, after = (prograd.load(name, engine=engine) for name in ("learns.pb", "small.pb"))
    before.load("t.safetensors")
    for split in ("train", "test"):
        assert before.evaluate(split) == after.evaluate(split)
    images = {"image": ROWS["image"]}
    np.testing.assert_array_equal(before.predict(images)["logits"], after.predict(images)["logits"])


def drawn(seed: int) -> Program:
    """Return a random network of images: convolutions, some depthwise, norms, poolings and dense layers."""
    rng = np.random.default_rng(seed)
    program = Program("drawn", seed=seed)
    x, label = program.input("x", "float32", ("batch", 8, 8, 3)), program.input("label", "int64", ("batch",))
    for i in range(int(rng.integers(1, 4))):
        deep = int(x.shape[-1])
        is_depthwise, wide = bool(i and rng.random() < 0.4), int(rng.integers(3, 21))
        x = layers.conv(x, f"conv{i}", deep if is_depthwise else wide, groups=deep if is_depthwise else 1)
        x = layers.batch_norm(x, f"norm{i}") if rng.random() < 0.6 else x
        x = [ops.relu, ops.gelu, ops.tanh][rng.integers(3)](x)
        x = ops.max_pool2d(x, window=2, stride=2) if rng.random() < 0.4 else x
    x = (
        ops.mean(x, axis=(1, 2))
        if rng.random() < 0.5
        else ops.reshape(x, shape=("batch", int(np.prod(x.shape[1:], dtype=int))))
    )
    x = ops.relu(layers.dense(x, "hidden", int(rng.integers(5, 40)))) if rng.random() < 0.7 else x
    if rng.random() < 0.5:
        x = ops.tanh(ops.matmul(x, program.parameter("turned", (12, int(x.shape[-1]))), transpose_b=True))
    logits = layers.dense(x, "head", 4)
    program.minimize(ops.softmax_cross_entropy(logits, label), sgd(0.05))
    program.outputs(logits=logits)
    return program


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(15))
def test_random_networks_have_the_bits_of_their_evaluations(seed: int, tmp_path: Path):
    drawn(seed).compile(batch=16, qat="int8").save(tmp_path / "learns.pb")
    rows = {"x": ROWS["image"][:16], "label": ROWS["label"][:16]}
    for engine in ENGINES:
        run = prograd.load(tmp_path / "learns.pb", engine=engine)
        for _ in range(3):
            run.step(rows)
        program = Program.load(tmp_path / "learns.pb")
        program.quantize("int8", run=run)
        small = prograd.Run(program.compile(), engine=engine)
        for entry, name, feeds in (("predict", "logits", {"x": rows["x"]}), ("evaluate", "loss", rows)):
            found, wanted = (each.step(feeds, entry=entry)[name] for each in (small, run))
            np.testing.assert_array_equal(found, wanted)


def tied() -> Program:
    """Return a network with layers as torch has them, whose table is looked up and multiplied."""
    program = Program("tied", seed=1)
    token, label = (program.input(name, "int64", ("batch", 6)) for name in ("token", "label"))
    table = program.parameter("table", (40, 32))
    wide, narrow = program.parameter("wide.w", (48, 32)), program.parameter("narrow.w", (32, 48))
    hidden = ops.relu(ops.matmul(ops.gather(table, token, axis=0), wide, transpose_b=True))
    logits = ops.matmul(ops.matmul(hidden, narrow, transpose_b=True), table, transpose_b=True)
    penalty = 0.01 * ops.mean(ops.square(narrow))
    program.minimize(ops.mean(ops.softmax_cross_entropy(logits, label)) + penalty, sgd(0.5))
    program.outputs(logits=logits)
    return program


@pytest.mark.parametrize("engine", ENGINES)
def test_transposes_and_looked_up_rows_have_the_bits_that_evaluations_saw(engine: str, tmp_path: Path):
    tied().compile(batch=16, qat="int8").save(tmp_path / "learns.pb")
    run = prograd.load(tmp_path / "learns.pb", engine=engine)
    numbers = np.random.default_rng(0)
    rows = {name: numbers.integers(0, 40, (16, 6)) for name in ("token", "label")}
    losses = [float(run.step(rows)["loss"]) for _ in range(4)]
    assert losses[-1] < losses[0]
    program = Program.load(tmp_path / "learns.pb")
    assert program.quantize("int8", run=run) == ["table", "wide.w", "narrow.w"]
    small = prograd.Run(program.compile(), engine=engine)
    assert small.state["table.scales"].shape == (40, 1)
    for entry, name in (("predict", "logits"), ("evaluate", "loss")):
        feeds = {"token": rows["token"]} if entry == "predict" else rows
        found, wanted = (each.step(feeds, entry=entry)[name] for each in (small, run))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("home")
def test_quantize_in_python_gives_the_same_and_needs_no_rows():
    assert compiler(QUANTIZE.split()[1:]) == 0
    run = prograd.load("learns.pb")
    run.load("t.safetensors")
    program = Program.load("learns.pb")
    assert program.quantize("int8", run=run) == ["first.w", "deep.w", "hidden.w"]
    small = prograd.Run(program.compile())
    images = {"image": ROWS["image"]}
    np.testing.assert_array_equal(small.predict(images)["logits"], prograd.load("small.pb").predict(images)["logits"])


@pytest.mark.usefixtures("home")
def test_codes_and_scales_that_an_entry_computes_are_those_that_quantize_stores():
    assert compiler(QUANTIZE.split()[1:]) == 0
    state, values = prograd.load("small.pb").state, load_file("t.safetensors")
    w = values["deep.w"]
    scales = np.abs(w).reshape(-1, 16).max(0) / np.float32(127)
    np.testing.assert_array_equal(state["deep.w.scales"], scales)
    np.testing.assert_array_equal(state["deep.w.codes"], np.rint(w / scales) + 128)
    scale = (values["deep.w.input_most"] - values["deep.w.input_least"]) / np.float32(255)
    assert state["deep.w.input_scale"] == scale


@pytest.mark.usefixtures("home")
def test_normalisation_becomes_part_of_the_scale():
    assert compiler(QUANTIZE.split()[1:]) == 0
    desc = prograd.load("small.pb").program
    entry = next(entry for entry in desc.entries if entry.name == "predict")
    ops_of = [op.type for op in desc.blocks[entry.source_block].ops]
    after = ops_of[ops_of.index("integer_conv2d") : ops_of.index("relu")]
    assert after.count("mul") == 4  # of channels: both scales, the multiple, the shift; then that of the sums
    assert after[-4:] == ["cast", "mul", "mul", "add"]


@pytest.mark.usefixtures("home")
def test_a_resumed_run_has_the_ranges_of_one_that_was_not_stopped(capsys: pytest.CaptureFixture[str]):
    assert runtime(["execute", "learns.pb", "-q", "--epochs", "3", "--checkpoint", "a", "--every", "2"]) == 0
    assert runtime(["execute", "learns.pb", "-q", "--epochs", "2", "--checkpoint", "b", "--every", "2"]) == 0
    assert (
        runtime(["execute", "learns.pb", "-q", "--epochs", "3", "--checkpoint", "b", "--every", "2", "--resume"]) == 0
    )
    hashes = re.findall(r"state_sha256=(\w+)", capsys.readouterr().out)
    assert hashes[0] == hashes[2] != hashes[1]


@pytest.mark.usefixtures("home")
def test_a_run_in_floats_is_a_beginning():
    floats = prograd.load("net.pb")
    floats.train()
    floats.save("floats.safetensors")
    run = prograd.load("learns.pb")
    loaded = run.load("floats.safetensors")
    assert "first.w.input_most" not in loaded.loaded
    assert float(run.state["first.w.input_most"]) == 0
    run.train(epochs=1)
    assert float(run.state["first.w.input_most"]) > 1
    again = prograd.load("learns.pb")
    again.load("t.safetensors")
    assert float(again.state["first.w.input_most"]) == float(load_file("t.safetensors")["first.w.input_most"])


def test_a_program_that_learns_is_compiled_again_as_it_is():
    one, passes = perceptron().compile(batch=32, qat="int8"), with_qat(PASSES, "int8")
    sha = one.sha256
    assert compile_program(one.desc, {"batch": 32}, passes=passes).sha256 == sha
    assert perceptron().compile(batch=32).sha256 != sha


def test_ranges_that_no_step_reached_are_refused():
    compiled = perceptron().compile(batch=32, qat="int8")
    run = prograd.Run(compiled)
    assert np.isfinite(run.predict({"x": np.ones((32, 24), "f4")})["prediction"]).all()
    assert told(OpError, lambda: perceptron().quantize("int8", run=run, rows={"x": np.ones((32, 24), "f4")})).endswith(
        "quantize: the run has learned ranges that this program lacks; take Program.load of its file"
    )


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "quantize learns.pb -o x.pb",
            "no step of training reached the range of what first.w multiplies; train the program, or load the states "
            "of a run that did, or leave the weight out by keep='first.w' when the program is compiled",
        ),
        (
            "quantize learns.pb --load t.safetensors --split train -o x.pb",
            "--split is for ranges, and learns.pb has learned them; leave it out",
        ),
        (
            "quantize learns.pb --load t.safetensors --keep first -o x.pb",
            "--keep is for `compiler compile --qat`, and learns.pb is trained; leave it out",
        ),
        (
            "quantize learns.pb --load t.safetensors --weights q8_0 -o x.pb",
            "--weights q8_0: learns.pb was trained for int8; leave --weights out",
        ),
        (
            "compile net.pb --qat int4",
            "net.pb: fake_quantize: qat='int4': training can prepare for int8 only; write qat='int8'",
        ),
        (
            "compile net.pb --qat int8 --keep hed",
            "net.pb: fake_quantize: qat: keep='hed' matches no parameter; did you mean 'head.w'?",
        ),
        ("compile net.pb --keep head", "--keep leaves parameters out of --qat int8; give that too"),
    ],
)
def test_a_request_that_cannot_be_fulfilled_is_one_sentence(words: str, said: str, capsys: pytest.CaptureFixture[str]):
    assert compiler(words.split()) == (3 if "fake_quantize" in said else 2)
    assert capsys.readouterr().err == f"compiler: {said}\n"


def refused(program: Program, **options: Any) -> str:
    with pytest.raises(CompileError) as caught:
        program.compile(batch=8, **options)
    return re.sub(r"^test_quantized_training.py:\d+: ", "", str(caught.value))


def test_what_cannot_be_trained_for_integers_is_refused():
    program = Program("net")
    x = program.input("x", "float32", ("batch", 5, 4))
    y, *_ = layers.lstm(x, "memory", 4)
    loss = ops.mean(ops.square(layers.dense(y, "head", 4)))
    program.minimize(loss, sgd(0.1))
    assert refused(program, qat="int8") == (
        "fake_quantize: qat: lstm_layer multiplies its states by memory.state, and training computes no steps of "
        "codes; keep='memory.state' leaves them in float32"
    )
    program.compile(batch=8, qat=prograd.qat("int8", keep=["memory"]))
    idle = Program("idle")
    idle.outputs(y=layers.dense(idle.input("x", "float32", ("batch", 4)), "head", 4))
    assert refused(idle, qat="int8") == (
        "fake_quantize: qat: this program trains nothing, so no step learns a range; minimize a loss first"
    )
    assert refused(perceptron(), qat="int8", shards=2) == (
        "fake_quantize: qat: a range is that of all rows of a step, and a shard has some of them; leave shards out"
    )
    left = Program("left")
    x = left.input("x", "float32", ("batch", 4))
    y = ops.matmul(left.parameter("w", (3, 4)), x, transpose_b=True)
    left.minimize(ops.mean(y) + ops.mean(x @ left.parameter("v", (4, 2))), sgd(0.1))
    assert refused(left, qat="int8") == (
        "fake_quantize: qat: matmul multiplies by w in a way that has no integers, unlike matmul and conv2d with a "
        "parameter of float32 on the right; keep='w' leaves it as it is"
    )
    both = Program("both")
    x, w = both.input("x", "float32", ("batch", 4)), both.parameter("w", (4, 4))
    both.minimize(ops.mean(ops.matmul(x @ w, w, transpose_b=True)), sgd(0.1))
    assert refused(both, qat="int8") == (
        "fake_quantize: qat: w is multiplied as it is and as its transpose, which have no scales in common; "
        "keep='w' leaves it as it is"
    )
    averaged = perceptron()
    averaged.average(0.9)
    assert refused(averaged, qat="int8") == (
        "fake_quantize: qat: the entry 'predict' multiplies by w.average, for which training learns no range; "
        "leave average out, or give it other entries"
    )
    more = perceptron()
    more.outputs(more=more.input("z", "float32", ("batch", 3)) @ more.parameter("u", (3, 2), trainable=False))
    assert refused(more, qat="int8") == (
        "fake_quantize: qat: the entry 'predict' multiplies by u, for which training learns no range; keep='u' leaves "
        "it as it is"
    )
    assert refused(idle, qat=3) == 'qat=3: give "int8" or prograd.qat("int8", keep=[…])'
    with pytest.raises(CompileError, match="qat: keep='head' is no list of patterns; write keep=\\['head'\\]"):
        prograd.qat("int8", keep="head")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["perceptron", "pictures"])
def test_training_recovers_three_quarters_of_what_plain_quantisation_loses(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The networks of the page, whose channels have different ranges; each loses a hundredth or more."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "quantized")
    qat = import_module("qat")
    _, found = qat.ours(name, tmp_path)
    lost = found["floats"] - found["quantised"]
    assert lost > 0.01
    assert found["trained"] - found["quantised"] > 0.75 * lost
