"""Parameters, slots, data and files of 16-bit floats: updates are computed in float32 and rounded."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from oracles.half_floats import TYPES
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import compiler
import runtime
from compiler import OpError, Program, constant, normal, ops, sgd
from compiler.train.optimizers import Optimizer
from prograd_proto.text import from_text, to_text
from runtime.__main__ import main as runtime_main

HALVES = ["float16", "bfloat16"]
OPTIMIZERS = {
    "sgd": lambda: compiler.sgd(0.1, decay=0.01),
    "momentum": lambda: compiler.momentum(0.1),
    "nesterov": lambda: compiler.nesterov(0.1),
    "adam": lambda: compiler.adam(0.05),
    "amsgrad": lambda: compiler.adam(0.05, amsgrad=True),
    "adamw": lambda: compiler.adamw(0.05, decay=0.1),
    "adamax": lambda: compiler.adamax(0.05),
    "nadam": lambda: compiler.nadam(0.05),
    "radam": lambda: compiler.radam(0.05),
    "adagrad": lambda: compiler.adagrad(0.1),
    "adadelta": lambda: compiler.adadelta(0.9),
    "rmsprop": lambda: compiler.rmsprop(0.01, momentum=0.9, centred=True),
    "lion": lambda: compiler.lion(0.01),
    "lamb": lambda: compiler.lamb(0.02),
    "lars": lambda: compiler.lars(0.5, trust=0.02),
    "adafactor": lambda: compiler.adafactor(0.05),
    "look_ahead": lambda: compiler.look_ahead(compiler.adam(0.05), every=2),
    "lazy": lambda: compiler.lazy(compiler.adam(0.05)),
}
RNG = np.random.default_rng(4)
X = RNG.normal(size=(8, 3)).astype(np.float32)
Y = (X @ np.float32([[1.0], [-2.0], [0.5]])).astype(np.float32)


def regression(dtype: str, optimizer: Optimizer, **options: object) -> Program:
    """y = x w + b; parameters of that dtype."""
    program = Program(seed=3)
    x, y = program.input("x", "float32", ("batch", 3)), program.input("y", "float32", ("batch", 1))
    w = program.parameter("w", (3, 1), normal(0.0, 0.5), dtype=dtype)
    b = program.parameter("b", (1,), constant(0.3), dtype=dtype)
    prediction = x @ ops.cast(w, dtype="float32") + ops.cast(b, dtype="float32")
    program.minimize(ops.squared_error(prediction, y), optimizer, **options)
    program.outputs(prediction=prediction)
    return program


def run_of(program: Program) -> runtime.Run:
    return runtime.Run(program.compile(batch=8).desc)


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.astype(TYPES[dtype]).astype(np.float32)


def is_given_as(array: np.ndarray, dtype: str) -> bool:
    return array.dtype == (np.float16 if dtype == "float16" else np.float32)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", HALVES)
def test_every_optimizer_computes_in_float32_and_rounds_the_parameter(dtype, name):
    half, single = run_of(regression(dtype, OPTIMIZERS[name]())), run_of(regression("float32", OPTIMIZERS[name]()))
    for parameter in ("w", "b"):
        assert np.array_equal(half.state[parameter], rounded(single.state[parameter], dtype))
    for _ in range(5):
        for state in half.state:
            single.state[state] = half.state[state].astype(single.state[state].dtype)
        half.step({"x": X, "y": Y})
        single.step({"x": X, "y": Y})
        for state in half.state:
            expected = single.state[state]
            if state in ("w", "b"):
                expected = rounded(expected, dtype)
            assert np.array_equal(half.state[state], expected), state
    slots = [state for state in half.program.states if state.slot]
    assert all(slot.dtype in (1, 2) for slot in slots)  # float32, and the product of nadam float64


@pytest.mark.parametrize("dtype", HALVES)
def test_sgd_is_what_numpy_computes_and_rounds_itself(dtype):
    run = run_of(regression(dtype, sgd(0.25)))
    w, b = (run.state[name].astype(TYPES[dtype]) for name in ("w", "b"))
    for _ in range(10):
        slope = (X @ w.astype(np.float32) + b.astype(np.float32) - Y) * np.float32(2 / 8)
        w, b = (
            (old.astype(np.float32) - np.float32(0.25) * gradient).astype(TYPES[dtype])
            for old, gradient in ((w, X.T @ slope), (b, slope.sum(0)))
        )
        run.step({"x": X, "y": Y})
    # sums of float32 may differ in their last digit, which moves few numbers by one of the 16-bit ones
    unit = 2.0**-10 if dtype == "float16" else 2.0**-7
    np.testing.assert_allclose(run.state["w"].astype(np.float32), w.astype(np.float32), rtol=2 * unit)
    np.testing.assert_allclose(run.state["b"].astype(np.float32), b.astype(np.float32), rtol=2 * unit)


@pytest.mark.parametrize("dtype", HALVES)
def test_training_learns(dtype):
    run = run_of(regression(dtype, compiler.adam(0.05)))
    losses = [float(run.step({"x": X, "y": Y})["loss"]) for _ in range(300)]
    assert losses[-1] < losses[0] / 500
    np.testing.assert_allclose(
        run.state["w"].astype(np.float32)[:, 0], [1.0, -2.0, 0.5], rtol=0.1
    )  # where updates vanish


@pytest.mark.parametrize(("dtype", "half_unit"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
def test_an_update_below_half_a_unit_of_the_parameter_is_lost(dtype, half_unit):
    for step, moved in ((half_unit, 0.0), (1.25 * half_unit, 2 * half_unit)):  # from 1, the halfway number is even
        program = Program()
        w = program.parameter("w", (), constant(1.0), dtype=dtype)
        program.minimize(-ops.cast(w, dtype="float32"), sgd(step))
        run = runtime.Run(program.compile().desc)
        for _ in range(3):
            run.step()
            if not moved:
                assert run.state["w"] == 1.0
        if moved:
            assert run.state["w"] == 1.0 + 3 * moved


def test_an_update_beyond_the_largest_float16_becomes_infinite():
    program = Program()
    w = program.parameter("w", (2,), constant(60000.0), dtype="float16")
    program.minimize(-ops.sum(ops.cast(w, dtype="float32")), sgd(5519.0))
    run = runtime.Run(program.compile().desc)
    run.step()
    assert np.array_equal(run.state["w"], [65504.0] * 2)  # 65519 is nearer to it than to 65536
    run.state["w"] = [60000.0, -1.0]
    run.step()
    run.step()
    assert np.array_equal(run.state["w"], [np.inf, np.float16(11037)])


@pytest.mark.parametrize("dtype", HALVES)
def test_accumulated_gradients_are_float32(dtype):
    run = run_of(regression(dtype, sgd(0.1), accumulate=4))
    before = run.state["w"]
    for i in range(4):
        assert np.array_equal(run.state["w"], before), i
        run.step({"x": X, "y": Y})
    assert run.state["w.gradient"].dtype == np.float32
    once = run_of(regression(dtype, sgd(0.1)))
    once.step({"x": X, "y": Y})
    assert np.array_equal(run.state["w"], once.state["w"])  # the mean of four equal gradients


@pytest.mark.parametrize("dtype", HALVES)
def test_averages_are_float32_and_stand_in_rounded(dtype):
    program = regression(dtype, sgd(0.1))
    program.average(0.9)
    run = run_of(program)
    average = run.state["w.average"].astype(np.float64)
    assert run.state["w.average"].dtype == np.float32
    for _ in range(20):
        run.step({"x": X, "y": Y})
        average = 0.9 * average + 0.1 * run.state["w"].astype(np.float64)
    np.testing.assert_allclose(run.state["w.average"], average, rtol=1e-5)
    w, b = (rounded(run.state[f"{name}.average"], dtype) for name in ("w", "b"))
    np.testing.assert_allclose(run.predict(X)["prediction"], X @ w + b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_parameters_buffers_and_data_take_half_the_memory(dtype):
    program = Program()
    x = program.input("x", dtype, ("batch", 64))
    w = program.parameter("w", (64, 32), dtype=dtype, trainable=False)
    kept = program.buffer("kept", (1000,), dtype=dtype)
    program.update(kept, kept)
    program.outputs(y=ops.cast(x, dtype="float32") @ ops.cast(w, dtype="float32"))
    run = runtime.Run(program.compile(batch=8).desc)
    assert run.states.nbytes == 2 * (64 * 32 + 1000) + 3 * 8
    assert run.session.bindings("predict")[0].feeds["x"].type.nbytes == 2 * 8 * 64


@pytest.mark.parametrize("dtype", HALVES)
def test_every_initialiser_makes_float32_that_the_state_takes_rounded(dtype):
    makers = {
        "zeros": compiler.zeros(),
        "constant": constant(0.1),
        "uniform": compiler.uniform(),
        "normal": normal(),
        "truncated": compiler.truncated_normal(),
        "identity": compiler.identity(),
        "orthogonal": compiler.orthogonal(),
        "scaled": compiler.variance_scaling(),
        "glorot": compiler.glorot_uniform(),
        "he": compiler.he_normal(),
        "infinite": constant(1e39),
    }
    states = {}
    for kind in (dtype, "float32"):
        program = Program(seed=1)
        for name, initial in makers.items():
            buffer = program.buffer(name, (6, 5), initial, dtype=kind)
            program.update(buffer, buffer)
        states[kind] = runtime.Run(program.compile().desc).state
    with np.errstate(over="ignore"):
        for name in makers:
            assert np.array_equal(states[dtype][name], rounded(states["float32"][name], dtype))
            assert is_given_as(states[dtype][name], dtype)


def test_states_are_read_and_written_in_every_form_that_loses_nothing():
    program = Program()
    for dtype in HALVES:
        state = program.buffer(dtype, (3,), dtype=dtype)
        program.update(state, state)
    run = runtime.Run(program.compile().desc)
    view, numbers = run.state, [1.0, -0.0, 0.5]
    exact = np.float32(numbers)
    for value in (numbers, exact, exact.astype(ml_dtypes.bfloat16), exact[::-1][::-1]):
        view["bfloat16"] = [0, 0, 0]
        view["bfloat16"] = value
        assert np.array_equal(view["bfloat16"], exact)
        assert view["bfloat16"].dtype == np.float32
    view["bfloat16"] = [0.1, np.inf, 3]  # lists are rounded, as those for float32 are
    assert np.array_equal(view["bfloat16"], np.float32([0.10009765625, np.inf, 3]))
    with pytest.raises(runtime.DataError) as caught:
        view["bfloat16"] = [1, 1e39, 3]
    assert str(caught.value) == "the number 1e+39 is too large or too small for bfloat16"
    assert np.array_equal(view["bfloat16"], np.float32([0.10009765625, np.inf, 3]))
    view["float16"] = exact.astype(np.float16)
    view["float16"] = numbers
    assert np.array_equal(view["float16"], exact)
    view["bfloat16"] = view["bfloat16"]

    for name, value, given in (
        ("bfloat16", np.float32([0.1, 0, 0]), "float32[3]"),
        ("bfloat16", exact.astype(np.float64), "float64[3]"),
        ("bfloat16", np.uint16([1, 2, 3]), "uint16[3]"),
        ("bfloat16", exact.astype(np.float16), "float16[3]"),
        ("float16", exact, "float32[3]"),
        ("float16", exact.astype(ml_dtypes.bfloat16), "bfloat16[3]"),
    ):
        with pytest.raises(runtime.DataError) as caught:
            view[name] = value
        assert str(caught.value) == f"the state {name!r} is {name}[3], the array given is {given}"


@pytest.mark.parametrize("dtype", HALVES)
def test_feeds_and_fetches_of_16_bits(dtype):
    program = Program()
    x = program.input("x", dtype, ("batch", 2))
    program.outputs(x=x)
    program.entry("evaluate", over="mean", mean=ops.cast(ops.mean(ops.cast(x, dtype="float32")), dtype=dtype))
    run = runtime.Run(program.compile(batch=2).desc)
    rows = np.float32([[0.5, 1.0], [2.0, -3.0], [4.0, 8.0]])
    for value in (rows.astype(TYPES[dtype]), rows.tolist(), *([rows] if dtype == "bfloat16" else [])):
        found = run.predict(value)
        assert np.array_equal(found["x"], rows)
        assert is_given_as(found["x"], dtype)
    assert run.evaluate({"x": rows.astype(TYPES[dtype])}) == {"mean": (0.125 * 2 + 6.0) / 3}
    with pytest.raises(runtime.DataError) as caught:
        run.predict(rows + np.float32(0.001))
    assert str(caught.value) == (f"entry 'predict': the feed 'x' is {dtype}[rows, 2], the array given is float32[3, 2]")


@pytest.mark.parametrize("dtype", HALVES)
def test_a_saved_run_goes_on_with_the_same_bits(dtype, tmp_path):
    program = regression(dtype, compiler.adam(0.05))
    whole, first = run_of(program), run_of(program)
    for run, steps in ((whole, 6), (first, 3)):
        for _ in range(steps):
            run.step({"x": X, "y": Y})
    first.save(tmp_path / "s.safetensors")
    second = run_of(program)
    second.resume(tmp_path / "s.safetensors")
    for _ in range(3):
        second.step({"x": X, "y": Y})
    assert second.states.sha256() == whole.states.sha256()

    with safe_open(tmp_path / "s.safetensors", "np") as file:
        assert file.get_slice("w").get_dtype() == {"float16": "F16", "bfloat16": "BF16"}[dtype]
    others = load_file(tmp_path / "s.safetensors")  # by the package's own reader
    assert others["w"].dtype == TYPES[dtype]
    assert np.array_equal(others["w"].astype(np.float32), first.state["w"])

    third = run_of(program)
    third.load(tmp_path / "s.safetensors")
    assert np.array_equal(third.state["w"], first.state["w"])
    save_file(others | {"w": others["w"].astype(np.float32)}, tmp_path / "wide.safetensors")
    with pytest.raises(runtime.DataError, match=rf"the tensor 'w' is float32\[3, 1\], the program's state is {dtype}"):
        third.load(tmp_path / "wide.safetensors")


def test_the_hash_of_states_is_over_the_name_of_the_dtype_and_the_bytes():
    program = Program()
    for dtype in HALVES:
        state = program.buffer(dtype, (2,), constant(1.5), dtype=dtype)
        program.update(state, state)
    run = runtime.Run(program.compile().desc)
    framed = (5).to_bytes(8, "little")
    for name, dtype, shape, data in (
        ("bfloat16", "bfloat16", [2], b"\xc0\x3f" * 2),
        ("float16", "float16", [2], b"\x00\x3e" * 2),
        *((counter, "int64", [], bytes(8)) for counter in ("seed", "step", "total_steps")),
    ):
        for text in (name, dtype):
            framed += len(text).to_bytes(8, "little") + text.encode()
        framed += len(shape).to_bytes(8, "little") + b"".join(n.to_bytes(8, "little") for n in shape)
        framed += len(data).to_bytes(8, "little") + data
    assert run.states.sha256() == hashlib.sha256(framed).hexdigest()


def classes(dtype: str, file: str) -> Program:
    """A program that trains on columns of 16 bits."""
    program = Program(seed=2)
    x, y = program.input("x", dtype, ("batch", 3)), program.input("y", dtype, ("batch", 1))
    w = program.parameter(
        "w", (3, 1), compiler.from_file(file, "start") if file == "d.safetensors" else None, dtype=dtype
    )
    prediction = ops.cast(x, dtype="float32") @ ops.cast(w, dtype="float32")
    program.minimize(ops.squared_error(prediction, ops.cast(y, dtype="float32")), compiler.adam(0.05))
    program.outputs(prediction=ops.cast(prediction, dtype=dtype))
    program.data(file, splits={"train": slice(0, 8)}, shuffle=False, remainder="drop")
    program.training(epochs=2)
    return program


def write_rows(dtype: str, folder: Path) -> None:
    kind = TYPES[dtype]
    arrays = {"x": X.astype(kind), "y": Y.astype(kind), "start": np.ones((3, 1), kind)}
    save_file(arrays, folder / "d.safetensors")
    np.savez(folder / "d.npz", **arrays)


@pytest.mark.parametrize("dtype", HALVES)
def test_columns_and_initial_values_come_from_safetensors(dtype, tmp_path):
    write_rows(dtype, tmp_path)
    classes(dtype, "d.safetensors").compile(batch=4).save(tmp_path / "p.pb")
    run = runtime.load(tmp_path / "p.pb")
    assert np.array_equal(run.state["w"], np.ones((3, 1)))
    assert np.array_equal(
        run.session.rows("predict", None).columns["x"].view(np.uint16), X.astype(TYPES[dtype]).view(np.uint16)
    )
    assert len(list(run.events())) > 4
    assert not np.array_equal(run.state["w"], np.ones((3, 1)))


def test_npz_has_float16_and_no_bfloat16(tmp_path):
    for dtype in HALVES:
        write_rows(dtype, tmp_path)
        classes(dtype, "d.npz").compile(batch=4).save(tmp_path / "p.pb", force=True)
        run = runtime.load(tmp_path / "p.pb")
        if dtype == "float16":
            assert len(list(run.events())) > 4
            continue
        with pytest.raises(runtime.DataError) as caught:
            list(run.events())
        assert str(caught.value).replace(f"{tmp_path}/", "") == (
            "d.npz: 'x' is void16[8, 3], the feed 'x' is bfloat16[rows, 3]"
        )


def test_a_float32_average_begins_with_the_bfloat16_tensor_of_a_file(tmp_path):
    write_rows("bfloat16", tmp_path)
    program = classes("bfloat16", "d.safetensors")
    program.average(0.5)
    program.compile(batch=4).save(tmp_path / "p.pb")
    run = runtime.load(tmp_path / "p.pb")
    assert np.array_equal(run.state["w.average"], np.ones((3, 1), np.float32))


def test_a_truncated_bfloat16_file_is_refused_in_a_sentence(tmp_path):
    write_rows("bfloat16", tmp_path)
    classes("bfloat16", "d.safetensors").compile(batch=4).save(tmp_path / "p.pb")
    data = (tmp_path / "d.safetensors").read_bytes()
    (tmp_path / "short.safetensors").write_bytes(data[:-3])
    run = runtime.load(tmp_path / "p.pb", data=tmp_path / "short.safetensors")
    with pytest.raises(runtime.DataError, match="cannot be read as a safetensors file"):
        list(run.events())


def test_nan_is_found_in_bfloat16(tmp_path):
    program = Program()
    x = program.input("x", "float32", (4,))
    program.outputs(y=ops.cast(x, dtype="bfloat16"))
    run = runtime.Run(program.compile().desc, check_nan=True)
    run.step({"x": [1.0, 2.0, 3e38, 4.0]}, entry="predict")
    with pytest.raises(runtime.NonFinite, match="has 2 of 4 elements that are NaN or Inf"):
        run.step({"x": [1.0, np.nan, 3.4e38, 4.0]}, entry="predict")


@pytest.mark.parametrize("dtype", HALVES)
def test_programs_of_16_bits_are_written_as_text_and_read_back(dtype):
    program = regression(dtype, sgd(0.1), accumulate=2)
    kept = program.buffer("kept", (2,), dtype=dtype)
    program.update(kept, ops.where(ops.equal(program.state("step"), 0), kept, 0.1))
    compiled = program.compile(batch=8)
    text = str(compiled)
    assert f"state w: {dtype}[3, 1], parameter" in text
    assert f"constant() {{value={dtype}[] {{0.1}}}}" in text
    assert to_text(from_text(text)) == text
    again = runtime.Run(from_text(to_text(compiled.desc)))
    assert again.sha256 == compiled.sha256


@pytest.mark.parametrize("dtype", HALVES)
def test_the_command_trains_fetches_saves_and_loads(dtype, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rows(dtype, tmp_path)
    classes(dtype, "d.safetensors").compile(batch=4).save(tmp_path / "p.pb")
    assert runtime_main(["execute", "p.pb", "--save", "s.safetensors"]) == 0
    fetch = ["execute", "p.pb", "--entry", "predict", "--load", "s.safetensors", "--fetch"]
    assert runtime_main([*fetch, "prediction"]) == 0
    given = "float16" if dtype == "float16" else "float32"
    assert f"prediction: {given}[8, 1] =" in capsys.readouterr().out
    assert runtime_main([*fetch, "prediction=@y.npy"]) == 0
    assert np.load("y.npy").dtype == given
    assert runtime_main([*fetch[:-1], "--expect", "prediction=@y.npy"]) == 0
    np.save("x.npy", X.astype(TYPES[dtype]).astype(given))
    assert runtime_main([*fetch[:-1], "--feed", "x=@x.npy", "--expect", "prediction=@y.npy"]) == 0


PROGRAM = """
import sys
{block}
import numpy as np
import runtime
run = runtime.load("p.pb")
for _ in run.events():
    pass
run.save("s.safetensors", force=True)
again = runtime.load("p.pb")
again.load("s.safetensors")
again.state["w"] = again.state["w"]
print(run.states.sha256(), again.state["w"].tolist(), again.predict(np.ones((1, 3), {given}))["prediction"].tolist())
print("ml_dtypes" in sys.modules and sys.modules["ml_dtypes"] is not None, file=sys.stderr)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", HALVES)
def test_the_runtime_needs_no_other_package_for_either(dtype, tmp_path):
    write_rows(dtype, tmp_path)
    classes(dtype, "d.safetensors").compile(batch=4).save(tmp_path / "p.pb")
    said = set()
    for block in ("import ml_dtypes", "sys.modules['ml_dtypes'] = None"):
        script = PROGRAM.format(block=block, given="np.float16" if dtype == "float16" else "np.float32")
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    assert len(said) == 1


def test_a_16_bit_parameter_is_cast_before_it_is_computed_with():
    program = Program()
    x = program.input("x", "float32", ("batch", 3))
    w = program.parameter("w", (3, 1), dtype="bfloat16")
    with pytest.raises(OpError) as caught:
        x @ ops.cast(w, dtype="float32") + w
    assert str(caught.value).endswith("b is bfloat16, which is stored and moved only; cast it to float32")


def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs/half-floats.md").read_text(encoding="utf-8")
    [_, script, *_] = page.split("```python\n")
    monkeypatch.chdir(tmp_path)
    exec(script.partition("```")[0], {})
    run = runtime.load("half.pb")
    feeds = {"x": X[:4].astype(ml_dtypes.bfloat16), "y": Y[:4]}
    losses = [float(run.step(feeds)["loss"]) for _ in range(100)]
    assert losses[-1] < losses[0] / 20
    ten = [s.dtype for s in run.program.states if s.name == "w" or s.slot_of == "w"]
    assert ten == [8, 1, 1]  # 2 bytes and twice 4
