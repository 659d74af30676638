import re
import subprocess
import sys

import numpy as np
import pytest
from subjects.commands import told
from subjects.small_programs import BATCH, arrays, linear, rich, save

import runtime
from compiler import Program, ops, schedules, sgd, warmup_cosine
from prograd_proto import ProgramError
from prograd_proto.files import load as load_desc
from runtime.runs.evaluation import run_over


@pytest.fixture
def run(tmp_path):
    return runtime.load(save(linear(), tmp_path))


def batch(rows: int = BATCH) -> dict[str, np.ndarray]:
    return {"x": arrays()["x"][:rows], "y": arrays()["y"][:rows]}


def test_a_step_gives_every_fetch_by_name_and_updates_the_states(run):
    error = batch()["x"] @ np.full(3, 0.1, np.float32) - batch()["y"]
    fetched = run.step(batch())
    assert list(fetched) == ["loss", "rate"]
    assert fetched["loss"] == pytest.approx((error**2).mean(), rel=1e-6)
    assert run.state["step"] == 1
    assert run.state["b"] == pytest.approx(-0.1 * 2 * error.mean(), rel=1e-5)


def test_what_a_step_gave_is_not_overwritten_by_the_next(run):
    first = run.step(batch())["loss"]
    value = float(first)
    run.step(batch())
    assert first == value


def test_a_step_of_any_entry_and_any_of_its_sizes(run):
    four = run.step({"x": batch()["x"]}, entry="predict")["prediction"]
    one = run.step({"x": batch(1)["x"]}, entry="predict")["prediction"]
    assert (four.shape, one.shape) == ((4,), (1,))
    assert one[0] == pytest.approx(four[0])


def test_a_step_fetches_any_tensor_by_name(run):
    assert run.step(batch(), fetch=["y", "w"])["y"].tolist() == batch()["y"].tolist()


def test_a_fetched_state_is_its_value_at_the_start_of_the_step(run):
    before = run.state["w"]
    np.testing.assert_array_equal(run.step(batch(), fetch=["w"])["w"], before)
    assert not np.array_equal(run.state["w"], before)


def test_prediction_takes_any_number_of_rows(run):
    run.state["w"] = [1, 2, 3]
    run.state["b"] = 0.5
    x = arrays()["x"]
    expected = x @ np.array([1, 2, 3], np.float32) + 0.5
    for rows in (1, 3, 4, 11, 43):
        found = run.predict(x[:rows])["prediction"]
        np.testing.assert_allclose(found, expected[:rows], rtol=1e-5)
    np.testing.assert_array_equal(run.predict({"x": x})["prediction"], run.predict(x)["prediction"])


def test_lists_and_numbers_take_the_feeds_type_where_nothing_is_lost(run):
    assert run.predict([[1, 2, 3]])["prediction"].dtype == np.float32


def test_metrics_combine_over_a_whole_evaluation(tmp_path):
    program = linear()
    x = program.block.value("x")
    program.entry("evaluate", over="sum", total=ops.sum(x), by_column=ops.sum(x, axis=(0,)))
    program.entry("evaluate", over="mean", column_means=ops.mean(x, axis=(0,)))
    program.entry("evaluate", over="last", rows=x)
    run = runtime.load(save(program, tmp_path))
    results = run_over(run.session, "evaluate", run.session.rows("evaluate", "train"))  # 7 steps of 4 rows and 3 of 1
    rows = arrays()["x"][:31]
    assert results.steps == 10
    assert results.metrics["total"] == pytest.approx(rows.sum(), rel=1e-5)
    np.testing.assert_allclose(results.arrays["by_column"], rows.sum(axis=0), rtol=1e-5)
    np.testing.assert_allclose(results.arrays["column_means"], rows.mean(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(results.arrays["rows"], rows)
    assert results.arrays["column_means"].dtype == np.float32


def test_evaluation_takes_a_split_or_arrays_or_what_the_program_says(run):
    test = {name: arrays()[name][31:] for name in ("x", "y")}
    assert run.evaluate() == run.evaluate("test") == run.evaluate(test)
    assert run.evaluate("train") != run.evaluate("test")


def test_reading_a_state_gives_a_copy(run):
    run.state["w"][...] = 7
    assert run.state["w"].tolist() == pytest.approx([0.1, 0.1, 0.1])


def test_states_are_a_mapping(run):
    assert set(run.state) == {"seed", "step", "total_steps", "w", "b"}
    assert len(run.state) == 5
    assert "w" in run.state
    assert "v" not in run.state


FEEDS = [
    (
        {},
        "entry 'train' reads the feed 'x': float32[rows, 3], which is not given; "
        "give an array for each feed, or declare rows by program.data",
    ),
    (
        {"x": batch()["x"]},
        "entry 'train' reads the feed 'y': float32[rows], which is not given; "
        "give an array for each feed, or declare rows by program.data",
    ),
    (batch() | {"yy": 1}, "entry 'train' has no feed 'yy'; did you mean 'y'?"),
    (batch() | {"image": 1}, "entry 'train' has no feed 'image'; its feeds are: x, y"),
    (
        batch() | {"x": np.zeros((4, 3), np.complex64)},
        "entry 'train': the feed 'x' is float32[rows, 3], the array given is complex64[4, 3]",
    ),
    (
        batch() | {"x": np.zeros((4, 2), np.float32)},
        "entry 'train': the feed 'x' is float32[rows, 3], the array given is float32[4, 2]",
    ),
    (
        batch() | {"x": np.zeros((4, 3, 1), np.float32)},
        "entry 'train': the feed 'x' is float32[rows, 3], the array given is float32[4, 3, 1]; "
        "leave its last axis out, as in array[..., 0]",
    ),
    (batch() | {"x": np.float32(1)}, "entry 'train': the feed 'x' is float32[rows, 3], the array given is float32[]"),
    (batch() | {"y": ["a"] * 4}, "entry 'train': the feed 'y' is float32[rows], not text; give numbers"),
    (batch() | {"y": [True] * 3}, "the feeds differ in their number of rows: 'x' has 4, 'y' 3"),
    (batch(3), "entry 'train' takes 4 rows a step, and 3 are given"),
]


@pytest.mark.parametrize(("feeds", "expected"), FEEDS)
def test_a_feed_that_does_not_fit_is_one_sentence(run, feeds, expected):
    before = run.states.sha256()
    assert told(runtime.DataError, lambda: run.step(feeds)) == expected
    assert run.states.sha256() == before


def test_lists_of_uneven_length_are_one_sentence(run):
    found = told(runtime.DataError, lambda: run.step(batch() | {"x": [[1, 2, 3], [1]]}))
    assert found.startswith("a feed cannot be made of this list: ")


def test_numbers_that_would_change_are_refused(tmp_path):
    program = Program("indices")
    index = program.input("index", "int64", ("batch",))
    program.outputs(twice=index * 2)
    run = runtime.Run(program.compile(batch=2).desc)
    assert run.predict([1, 2])["twice"].tolist() == [2, 4]
    found = told(runtime.DataError, lambda: run.predict([1.5, 2]))
    assert found == (
        "entry 'predict': the feed 'index' is int64[rows], the array given is float64[2]; "
        "if these are whole numbers, cast them, as in array.astype('int64')"
    )


@pytest.mark.parametrize(
    ("dtype", "held", "beyond"),
    [
        ("uint8", [255, 0], 256),
        ("uint8", [255, 0], -1),
        ("int32", [2**31 - 1, -(2**31)], 2**31),
        ("int64", [2**63 - 1, -(2**63)], 2**63),
    ],
)
def test_lists_of_whole_numbers_take_the_dtype_of_a_feed_that_has_them(dtype, held, beyond):
    program = Program("numbers")
    program.outputs(same=program.input("x", dtype, ("batch",)))
    run = runtime.Run(program.compile(batch=2).desc)
    assert run.predict(held)["same"].tolist() == held
    assert run.predict(held)["same"].dtype == dtype
    found = told(runtime.DataError, lambda: run.predict([beyond, beyond]))
    assert found == f"the number {beyond} is too large or too small for {dtype}"


@pytest.mark.parametrize(
    ("dtype", "held", "beyond"),
    [
        ("float16", [65504.0, -65519.0, float("inf")], 65520.0),
        ("float16", [65504, float("-inf")], 70000),
        ("bfloat16", [3.38e38, float("nan")], 1e39),
        ("float32", [3.4e38, float("inf")], -1e39),
    ],
)
def test_a_finite_number_of_a_list_does_not_become_infinite(dtype: str, held: list[float], beyond: float):
    program = Program("numbers")
    program.outputs(same=ops.cast(program.input("x", dtype, ("batch",)), dtype="float64"))
    run = runtime.Run(program.compile(batch=2).desc)
    np.testing.assert_allclose(run.predict(held)["same"], held, rtol=1e-2)
    found = told(runtime.DataError, lambda: run.predict([beyond]))
    assert found == f"the number {beyond} is too large or too small for {dtype}"


WRONG = [
    (lambda run: run.step(batch(), entry="tarin"), "there is no entry 'tarin'; did you mean 'train'?"),
    (lambda run: run.step(batch(), entry="x"), "there is no entry 'x'; the entries are train, predict, evaluate"),
    (lambda run: run.step(batch(), fetch=["q7"]), "entry 'train' has no fetch and no tensor 'q7'"),
    (lambda run: run.state["ww"], "the program has no state 'ww'; did you mean 'w'?"),
]


@pytest.mark.parametrize(("action", "expected"), WRONG)
def test_an_unknown_name_is_one_sentence(run, action, expected):
    assert told(runtime.UsageError, lambda: action(run)) == expected


def test_writing_a_state_checks_its_type(run):
    def write(value):
        run.state["w"] = value

    found = told(runtime.DataError, lambda: write(np.zeros(3)))
    assert found == "the state 'w' is float32[3], the array given is float64[3]"
    found = told(runtime.DataError, lambda: write([1, 2]))
    assert found == "the state 'w' is float32[3], the array given is float32[2]"


def test_predicting_with_several_feeds_wants_them_by_name(run):
    found = told(runtime.DataError, lambda: run.predict(batch()["x"], entry="evaluate"))
    assert found == "entry 'evaluate' has the feeds x, y; give an array by name"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"engine": "gpu"},
            "there is no engine 'gpu'; the engines are reference, native, "
            "native.amx_int8, native.amx, native.avx512_bf16, native.avx512_vnni, native.avx512, "
            "native.avx_vnni, native.avx2, native.sse2, native.neon_dotprod, native.neon",
        ),
        ({"threads": 0}, "threads=0: a run takes at least one thread"),
    ],
)
def test_options_of_loading_are_checked(tmp_path, options, expected):
    path = save(linear(), tmp_path)
    assert told(runtime.UsageError, lambda: runtime.load(path, **options)) == expected


def test_a_malformed_program_is_refused_with_its_path(tmp_path):
    path = save(linear(), tmp_path)
    desc = load_desc(path)
    for block in desc.blocks:
        block.ops[0].type = "matmul2"
    found = told(ProgramError, lambda: runtime.Run(desc))
    expected = r"block \d+: op \d+ \(matmul2 from .*\): this runtime has no kernel 'matmul2'; the closest is 'matmul'"
    assert re.fullmatch(expected, found)
    (tmp_path / "no.pb").write_bytes(b"")
    assert told(ProgramError, lambda: runtime.load(tmp_path / "no.pb")) == f"{tmp_path}/no.pb: the file is empty"


def test_a_program_that_does_not_say_what_it_runs_is_asked_for_an_entry():
    program = Program("two")
    x = program.input("x", "float32", ("batch",))
    program.entry("a", y=x + 1.0)
    program.entry("b", y=x + 2.0)
    run = runtime.Run(program.compile(batch=2).desc)
    found = told(runtime.UsageError, lambda: run.step({"x": [1, 2]}))
    assert found == "the program does not say which entry it runs; name one of a, b"
    assert run.step({"x": [1, 2]}, entry="b")["y"].tolist() == [3, 4]


def test_an_entry_without_feeds_runs():
    program = Program("nothing")
    program.outputs(y=program.constant(2.0) * 3.0)
    run = runtime.Run(program.compile().desc)
    assert run.step()["y"] == 6
    assert run.predict({})["y"] == 6


def test_feeds_without_rows_are_the_same_for_every_step():
    program = Program("scaled")
    x = program.input("x", "float32", ("batch",))
    scale = program.input("scale", "float32", ())
    program.outputs(y=x * scale)
    program.entry("sums", y=x * scale, sum=ops.sum(x))
    run = runtime.Run(program.compile(batch=2).desc)
    found = run.predict({"x": [1, 2, 3], "scale": 2}, entry="sums")  # a step of two rows, and one of the last
    assert (found["y"].tolist(), found["sum"].tolist()) == ([2, 4, 6], 3)
    assert run.predict({"x": [1, 2, 3, 4], "scale": 2})["y"].tolist() == [2, 4, 6, 8]
    assert run.predict({"x": [1, 2, 3], "scale": 2})["y"].tolist() == [2, 4, 6], "the fourth row is a copy of the third"


def test_a_program_in_memory_runs_without_a_file():
    run = runtime.Run(linear().compile(batch=BATCH).desc)
    assert run.step(batch())["loss"] > 0


def test_two_runs_of_one_program_do_not_share_states(tmp_path):
    path = save(rich(), tmp_path)
    one, two = runtime.load(path), runtime.load(path)
    list(one.events())
    assert two.state["step"] == 0


def test_the_library_prints_nothing(tmp_path, capfd):
    run = runtime.load(save(rich(), tmp_path))
    list(run.events(checkpoint=tmp_path / "c"))
    run.evaluate()
    assert capfd.readouterr() == ("", "")


def test_importing_and_training_loads_no_third_party_but_numpy_and_protobuf(tmp_path):
    path = save(rich(), tmp_path)
    script = (
        "import sys; own = set(sys.modules)\n"
        "import runtime\n"
        f"run = runtime.load({str(path)!r}); list(run.events()); run.evaluate('test')\n"
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - own}\n"
        "print(*sorted(loaded - set(sys.stdlib_module_names)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in found if not name.startswith("_")] == [
        "google",
        "numpy",
        "prograd_proto",
        "runtime",
    ]


def test_the_names_of_the_library_are_there():
    assert set(dir(runtime)) >= {"load", "Run", "StepEnd", "DataError"}
    for name in dir(runtime):
        assert getattr(runtime, name) is not None
    with pytest.raises(AttributeError, match="module 'runtime' has no attribute 'lod'"):
        runtime.lod  # noqa: B018 (the access is the test)


def scheduled(tmp_path, rate):
    program = Program()
    x, w = program.input("x", "float32", (3,)), program.parameter("w", (3,))
    program.minimize(ops.sum(x * w), sgd(rate))
    program.outputs(rate=rate(program.block))
    program.compile().save(tmp_path / "scheduled.pb", force=True)
    return runtime.load(tmp_path / "scheduled.pb")


def test_steps_one_by_one_ask_for_the_length_of_the_run_if_a_schedule_does(tmp_path):
    run = scheduled(tmp_path, warmup_cosine(0.1))
    x = {"x": np.ones(3, np.float32)}
    for entry, action in (("train", lambda: run.step(x)), ("predict", lambda: run.predict({}))):
        assert told(runtime.UsageError, action) == (
            f"entry {entry!r} reads total_steps, the steps of the whole run, as schedules do, and it is 0; "
            "say how many there will be before the first, as in run.state['total_steps'] = 1000"
        )
    assert run.state["step"] == 0, "nothing was trained"
    run.state["total_steps"] = 20
    rates = [float(run.step(x)["rate"]) for _ in range(20)]
    whole = scheduled(tmp_path, warmup_cosine(0.1))
    events = list(whole.events(data=x, steps=20))
    assert rates == [event.metrics["rate"] for event in events if isinstance(event, runtime.StepEnd)]
    assert rates[1] == 0.1
    np.testing.assert_array_equal(run.state["w"], whole.state["w"])


def test_a_length_of_the_run_that_was_saved_is_known(tmp_path):
    run = scheduled(tmp_path, warmup_cosine(0.1))
    run.state["total_steps"] = 20
    run.step({"x": np.ones(3, np.float32)})
    run.save(tmp_path / "run.safetensors")
    again = scheduled(tmp_path, warmup_cosine(0.1))
    again.resume(tmp_path / "run.safetensors")
    assert again.step({"x": np.ones(3, np.float32)})["rate"] == run.step({"x": np.ones(3, np.float32)})["rate"]


def test_a_schedule_that_knows_its_own_length_does_not_ask(tmp_path):
    run = scheduled(tmp_path, schedules.cosine(0.1, steps=10))
    rates = [float(run.step({"x": np.ones(3, np.float32)})["rate"]) for _ in range(3)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 0.1
