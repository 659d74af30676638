"""Loading some of the states, under other names, and from state dicts of PyTorch."""

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import prograd
import runtime
from prograd import Program, Run, constant, from_file, layers, look_ahead, normal, ops, sgd
from runtime.__main__ import main

Array = np.ndarray


def network() -> Run:
    """A trunk of two layers, and a head."""
    program = Program("network")
    x = program.input("x", "float32", ("batch", 4))
    for i in range(2):
        x = ops.tanh(layers.dense(x, f"trunk.layer{i}", 4))
    program.outputs(y=layers.dense(x, "head", 2))
    return Run(program.compile(batch=1).desc)


def drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


BACKBONE = {
    "backbone.layer0.w": drawn(4, 4),
    "backbone.layer0.b": drawn(4),
    "backbone.layer1.w": drawn(4, 4) + 1,
    "backbone.layer1.b": drawn(4) + 1,
    "classifier.w": drawn(4, 7),
}
RENAME = {"backbone.": "trunk."}


def test_states_lie_beside_each_other_and_begin_on_lines_of_the_cache():
    arrays = network().session.states.arrays.values()
    starts = [array.ctypes.data for array in arrays]
    ends = [start + array.nbytes for start, array in zip(starts, arrays, strict=True)]
    assert all(start % 64 == 0 for start in starts)
    assert [after - end for end, after in zip(ends, starts[1:], strict=False)] == [-end % 64 for end in ends[:-1]]


def test_some_states_are_taken_under_other_names_and_it_is_said_which(tmp_path: Path):
    save_file(BACKBONE, tmp_path / "b.safetensors")
    run = network()
    head = run.state["head.w"]
    done = run.load(tmp_path / "b.safetensors", only="trunk.*", rename=RENAME)
    for name, array in BACKBONE.items():
        if name.startswith("backbone."):
            np.testing.assert_array_equal(run.state[name.replace("backbone.", "trunk.")], array)
    np.testing.assert_array_equal(run.state["head.w"], head)
    assert done.loaded == {name.replace("backbone.", "trunk."): name for name in BACKBONE if name != "classifier.w"}
    assert (done.left, done.kept) == (["classifier.w"], ["head.w", "head.b"])
    assert str(done) == (
        "loaded 4 (trunk.layer0.w, trunk.layer0.b, trunk.layer1.w and 1 more), "
        "left 1 (classifier.w) of the file, kept 2 (head.w, head.b) as before"
    )


def test_the_command_says_what_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    program = Program("p")
    w = program.parameter("trunk.w", (2,), trainable=False)
    program.outputs(y=w * program.parameter("head.w", (2,), trainable=False))
    program.compile().save("p.pb")
    save_file({"backbone.w": np.array([3, 4], np.float32), "more": drawn(2)}, "b.safetensors")
    options = [
        "--load",
        "b.safetensors",
        "--only",
        "trunk.*",
        "--rename",
        "backbone.=trunk.",
        "--save",
        "s.safetensors",
    ]
    assert main(["execute", "p.pb", "--entry", "predict", *options]) == 0
    assert capsys.readouterr().err == (
        "runtime: b.safetensors: loaded 1 (trunk.w), left 1 (more) of the file, kept 1 (head.w) as before\n"
    )
    run = runtime.load("p.pb")
    run.load("s.safetensors")
    assert run.state["trunk.w"].tolist() == [3, 4]


def test_rules_replace_the_beginning_or_both_ends_and_the_first_that_fits_counts(tmp_path: Path):
    tensors = {
        "net.0.kernel": drawn(4, 4),
        "net.0.offset": drawn(4),
        "net.1.kernel": drawn(4, 4),
        "net.1.offset": drawn(4),
    }
    save_file(tensors | {"h.w": drawn(4, 2), "h.b": drawn(2)}, tmp_path / "t.safetensors")
    rules = {"net.*.kernel": "trunk.layer*.w", "net.*.offset": "trunk.layer*.b", "h.": "head.", "h": "never."}
    done = network().load(tmp_path / "t.safetensors", rename={name: rules[name] for name in list(rules)[:3]})
    assert done.loaded["trunk.layer1.b"] == "net.1.offset"
    assert (done.left, done.kept) == ([], [])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"rename": RENAME},
            "b.safetensors: there is no tensor 'head.w', which the program has as a state; "
            "only= loads some, rename= other names",
        ),
        (
            {"only": ["trunk.*", "hed.*"], "rename": RENAME},
            "only: no parameter and no buffer matches 'hed.*'; did you mean 'head.w'?",
        ),
        (
            {"only": "trunk.*", "rename": {"bakbone.": "trunk."}},
            "rename: no tensor of b.safetensors fits 'bakbone.'; did you mean 'backbone.layer1.w'?",
        ),
        (
            {"only": "trunk.*", "rename": {"backbone.*": "trunk."}},
            "rename: 'backbone.*' to 'trunk.'; either both have one *, or neither has, and the first is not empty",
        ),
        (
            {"only": "head.w", "rename": {"classifier.": "head."}},
            "b.safetensors: the tensor 'classifier.w' is float32[4, 7], the state 'head.w', which it is for, "
            "is float32[4, 2]",
        ),
        (
            {"only": "head.w", "rename": {"backbone.layer0.": "x.", "backbone.layer1.": "x."}},
            "b.safetensors: the tensors 'backbone.layer0.b' and 'backbone.layer1.b' would both be called 'x.b'",
        ),
        ({"layout": "keras"}, "layout='keras' is not one of prograd, torch"),
        (
            {"layout": "torch", "only": "head.*"},
            "b.safetensors: there is no tensor 'head.w', nor 'head.weight', which the program has as a state; "
            "only= loads some, rename= other names",
        ),
    ],
)
def test_what_cannot_be_taken_is_said_and_nothing_is_changed(
    options: dict[str, object], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    save_file(BACKBONE, "b.safetensors")
    run = network()
    before = run.states.sha256()
    with pytest.raises((runtime.DataError, runtime.UsageError)) as caught:
        run.load("b.safetensors", **options)  # pyright: ignore
    assert str(caught.value) == sentence
    assert run.states.sha256() == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--only", "trunk.*"], "--only, --rename and --layout say what --load takes; give --load"),
        (
            ["--only", "trunk.*", "--load", "s", "--resume"],
            "--only, --rename and --layout say what --load takes, and --resume takes all; give --load alone",
        ),
        (
            ["--load", "s", "--layout", "torch", "--record", "r.json"],
            "--record names one file that was loaded; save what --only, --rename and --layout took, and load that file",
        ),
        (["--load", "s", "--rename", "a"], "argument --rename: 'a' is not OLD=NEW, as in backbone.=trunk."),
    ],
)
def test_options_that_say_nothing_together_are_refused(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
):
    try:
        code = main(["execute", "p.pb", *options])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert sentence in capsys.readouterr().err


def taken(build: Callable[[Program], None], tensors: dict[str, Array], folder: Path, **options: object) -> Run:
    """A run whose states were taken from a state dict of PyTorch."""
    program = Program()
    build(program)
    program.freeze("*")
    program.outputs(y=program.constant(1.0))
    run = Run(program.compile().desc)
    save_file(tensors, folder / "t.safetensors")
    done = run.load(folder / "t.safetensors", layout="torch", **options)  # pyright: ignore
    assert done.kept == []
    return run


def test_weights_of_dense_and_convolution_are_turned_and_norms_and_tables_are_not(tmp_path: Path):
    def build(program: Program) -> None:
        x = program.input("x", "float32", (1, 5, 5, 3))
        x = layers.batch_norm(layers.conv(x, "features.0", 4, groups=1), "features.1")
        layers.dense(ops.reshape(x, shape=(1, 100)), "fc", 2)
        layers.embedding(program.input("n", "int64", (1,)), "words", 7, 7)

    tensors = {
        "features.0.weight": drawn(4, 3, 3, 3),
        "features.0.bias": drawn(4),
        **{
            f"features.1.{name}": drawn(4) + i
            for i, name in enumerate(("weight", "bias", "running_mean", "running_var"))
        },
        "features.1.num_batches_tracked": np.array(3),
        "fc.weight": drawn(2, 100),
        "fc.bias": drawn(2),
        "words.weight": drawn(7, 7),
    }
    state = taken(build, tensors, tmp_path).state
    for i, j in np.ndindex(4, 3):
        np.testing.assert_array_equal(state["features.0.w"][:, :, j, i], tensors["features.0.weight"][i, j])
    np.testing.assert_array_equal(state["fc.w"], tensors["fc.weight"].T)
    np.testing.assert_array_equal(state["words.table"], tensors["words.weight"])
    for name, tensor in (("scale", "weight"), ("bias", "bias"), ("mean", "running_mean"), ("variance", "running_var")):
        np.testing.assert_array_equal(state[f"features.1.{name}"], tensors[f"features.1.{tensor}"])


def test_recurrent_weights_are_found_by_layer_and_direction(tmp_path: Path):
    def build(program: Program) -> None:
        x = program.input("x", "float32", (1, 5, 3))
        y, _, _ = layers.lstm(x, "net.rnn", 2, layers=2, bidirectional=True)
        layers.gru(y, "gru", 2)

    tensors = {"gru.weight_ih_l0": drawn(6, 4), "gru.weight_hh_l0": drawn(6, 2)}
    tensors |= {"gru.bias_ih_l0": drawn(6), "gru.bias_hh_l0": drawn(6) + 1}
    for end in ("l0", "l0_reverse", "l1", "l1_reverse"):
        width = 3 if "0" in end else 4
        tensors |= {f"net.rnn.weight_ih_{end}": drawn(8, width) + len(end), f"net.rnn.weight_hh_{end}": drawn(8, 2)}
        tensors |= {f"net.rnn.bias_ih_{end}": drawn(8) + len(end), f"net.rnn.bias_hh_{end}": drawn(8) - len(end)}
    state = taken(build, tensors, tmp_path).state
    np.testing.assert_array_equal(state["net.rnn.layer1.back.input"], tensors["net.rnn.weight_ih_l1_reverse"].T)
    np.testing.assert_array_equal(state["net.rnn.layer0.state_bias"], tensors["net.rnn.bias_hh_l0"])
    np.testing.assert_array_equal(state["gru.state"], tensors["gru.weight_hh_l0"].T)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_of_16_bits_of_pytorch_are_widened(dtype: str, tmp_path: Path):
    def build(program: Program) -> None:
        layers.dense(program.input("x", "float32", (1, 3)), "fc", 2)

    weight = drawn(2, 3).astype(getattr(ml_dtypes, dtype, dtype))
    run = taken(build, {"fc.weight": weight, "fc.bias": np.ones(2, weight.dtype)}, tmp_path)
    assert np.array_equal(run.state["fc.w"], weight.astype(np.float32).T)
    assert run.state["fc.w"].dtype == np.float32


def test_an_encoder_of_pytorch_is_taken_by_one_rule(tmp_path: Path):
    def build(program: Program) -> None:
        x = program.input("x", "float32", (1, 5, 4))
        with program.scope("encoder"):
            layers.transformer_block(x, "block0", 2, width=6)

    at = "encoder.layers.0."
    tensors = {
        f"{at}self_attn.in_proj_weight": drawn(12, 4),
        f"{at}self_attn.in_proj_bias": drawn(12),
        f"{at}self_attn.out_proj.weight": drawn(4, 4),
        f"{at}self_attn.out_proj.bias": drawn(4),
        f"{at}linear1.weight": drawn(6, 4),
        f"{at}linear1.bias": drawn(6),
        f"{at}linear2.weight": drawn(4, 6),
        f"{at}linear2.bias": drawn(4),
        **{f"{at}norm{i}.{name}": drawn(4) + i for i in (1, 2) for name in ("weight", "bias")},
    }
    state = taken(build, tensors, tmp_path, rename={"encoder.layers.": "encoder.block"}).state
    q, k, v = np.split(tensors[f"{at}self_attn.in_proj_weight"], 3)
    for name, part in (("q", q), ("k", k), ("v", v)):
        np.testing.assert_array_equal(state[f"encoder.block0.attention.{name}.w"], part.T)
    np.testing.assert_array_equal(state["encoder.block0.attention.v.b"], tensors[f"{at}self_attn.in_proj_bias"][8:])
    np.testing.assert_array_equal(state["encoder.block0.attention.out.w"], tensors[f"{at}self_attn.out_proj.weight"].T)
    np.testing.assert_array_equal(state["encoder.block0.forward2.w"], tensors[f"{at}linear2.weight"].T)
    np.testing.assert_array_equal(state["encoder.block0.norm2.scale"], tensors[f"{at}norm2.weight"])


def test_two_modules_are_taken_as_one_layer_by_rules_that_name_its_states(tmp_path: Path):
    tensors = {"conv1.weight": drawn(4, 3, 3, 3)}
    tensors |= {f"bn1.{name}": drawn(4) + i for i, name in enumerate(("weight", "bias", "running_mean", "running_var"))}
    rename = {"conv1.": "stem.", "bn1.weight": "stem.scale", "bn1.bias": "stem.bias", "bn1.": "stem."}

    def build(program: Program) -> None:
        layers.conv_norm(program.input("x", "float32", (1, 5, 5, 3)), "stem", 4)

    state = taken(build, tensors, tmp_path, rename=rename).state
    np.testing.assert_array_equal(state["stem.scale"], tensors["bn1.weight"])
    np.testing.assert_array_equal(state["stem.variance"], tensors["bn1.running_var"])
    np.testing.assert_array_equal(state["stem.w"][1, 2], tensors["conv1.weight"][:, :, 1, 2].T)


@pytest.fixture
def without_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A program whose first weights lie in a file that is gone, beside what was trained; and what is said of it."""
    monkeypatch.chdir(tmp_path)
    save_file({"first": drawn(4, 2)}, "first.safetensors")
    prograd.data.write("rows.safetensors", {"x": drawn(4, 4)})
    program = Program("late")
    x = program.input("x", "float32", ("batch", 4))
    first = program.parameter("first", (4, 2), from_file("first.safetensors"))
    scale = program.parameter("scale", (2,), constant(1.0))
    y = x @ first * scale
    program.minimize(ops.mean(y * y), sgd(0.1))
    program.outputs(y=y)
    program.entry("alone", twice=scale * 2.0)
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=4).save("late.pb", force=True)
    assert main(["execute", "late.pb", "-q", "--save", "trained.safetensors", "--checkpoint", "run1"]) == 0
    Path("first.safetensors").unlink()
    return "late.pb", "first.safetensors: the program's file cannot be read: No such file or directory"


def test_a_file_of_initial_values_may_be_missing_where_all_of_them_are_replaced(
    without_its_file: tuple[str, str], capsys: pytest.CaptureFixture[str]
):
    path, _ = without_its_file
    for options in (["--load", "trained.safetensors"], ["--checkpoint", "run1", "--resume"]):
        assert main(["execute", path, "-q", *options, *(["--epochs", "1"] if "--load" in options else [])]) == 0
    assert main(["execute", path, "-q", "--entry", "predict", "--load", "trained.safetensors"]) == 0
    capsys.readouterr()
    run = runtime.load(path)
    run.resume("run1")
    again = runtime.load(path)
    again.state["first"] = run.state["first"]
    assert again.predict(drawn(4, 4))["y"].shape == (4, 2)


def test_a_file_of_initial_values_that_is_missing_is_named_when_one_is_used(
    without_its_file: tuple[str, str], capsys: pytest.CaptureFixture[str]
):
    path, sentence = without_its_file
    run = runtime.load(path)
    uses: list[Callable[[], object]] = [
        run.train,
        lambda: run.predict(drawn(4, 4)),
        lambda: run.save("s.safetensors"),
        lambda: run.state["first"],
        lambda: run.state_sha256,
    ]
    for use in uses:
        with pytest.raises(runtime.DataError) as caught:
            use()
        assert str(caught.value) == sentence
    assert run.predict({}, entry="alone")["twice"].tolist() == [2, 2]  # which reads the other state alone
    assert "not read" in run._repr_html_()
    capsys.readouterr()
    for command in (["check"], ["execute"], ["execute", "--load", "trained.safetensors", "--only", "scale"]):
        assert main([command[0], path, *command[1:]]) == 4
        assert capsys.readouterr().err.splitlines()[-1] == f"runtime: {sentence}"
    assert not Path("s.safetensors").exists()


def averaged(dtype: str = "float32", rate: float = 0.0) -> Run:
    """One weight, drawn at the start, with an average and with an optimizer that remembers where it was."""
    program = Program("averaged", seed=1)
    x, w = program.input("x", "float32", ("batch", 4)), program.parameter("w", (4, 3), normal(), dtype=dtype)
    y = x @ ops.cast(w, dtype="float32")
    program.minimize(ops.mean(y**2), look_ahead(sgd(rate), every=2))
    program.average(0.9)
    program.outputs(y=y)
    return Run(program.compile(batch=2).desc)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("way", ["load", "set"])
def test_averages_and_slots_that_begin_like_a_parameter_follow_the_value_it_is_given(
    way: str, dtype: str, tmp_path: Path
):
    """They would be those of the drawn value, to which look_ahead would move half of the way back."""
    w = drawn(4, 3).astype(ml_dtypes.bfloat16).astype(np.float32)
    run, x = averaged(dtype), drawn(2, 4)
    if way == "load":
        other = averaged(dtype)
        other.state["w"] = w
        other.save(tmp_path / "w.safetensors")
        assert run.load(tmp_path / "w.safetensors", only="w").kept == []
    else:
        run.state["w"] = w
    np.testing.assert_array_equal(run.state["w.slow"], w)
    np.testing.assert_array_equal(run.predict(x)["y"], x @ w)
    for _ in range(4):
        run.step({"x": x})
    for name in ("w", "w.slow", "w.average"):
        np.testing.assert_allclose(run.state[name], w, rtol=1e-6)


def test_averages_and_slots_that_have_moved_keep_their_values(tmp_path: Path):
    run, x = averaged(rate=0.1), drawn(2, 4)
    run.state["w.average"] = np.ones((4, 3), np.float32)
    run.state["w"] = drawn(4, 3)
    np.testing.assert_array_equal(run.state["w.average"], np.ones((4, 3), np.float32))
    run.step({"x": x})
    slow = run.state["w.slow"]
    assert not np.array_equal(slow, run.state["w"])
    run.state["w"] = np.zeros((4, 3), np.float32)
    np.testing.assert_array_equal(run.state["w.slow"], slow)
