"""Contents of notebooks and prompts: signatures of operators, representations, completions."""

import copy
import importlib
import inspect
import pickle
import pydoc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import told

import compiler
import prograd
import runtime
from compiler.__main__ import main
from prograd import Program, Run, UsageError, adam, constant, layers, metrics, ops, sgd
from registry import OPS
from runtime.__main__ import main as runtime_main
from runtime.dtypes import BFLOAT16
from runtime.runs.shown.html_tables import MAX_TABLE_ROWS, described, table


def network() -> Program:
    program = Program("digits")
    x, label = program.input("x", "float32", ("batch", 4)), program.input("label", "int64", ("batch",))
    with program.scope("encoder"):
        x = layers.batch_norm(layers.dense(x, "hidden", 8), "norm")
    y = layers.dense(x, "output", 3)
    program.freeze("encoder.hidden.*")
    program.minimize(ops.softmax_cross_entropy(y, label), adam())
    program.outputs(y=y)
    return program


def test_every_operator_has_a_signature_with_kinds_and_defaults():
    for op in OPS.values():
        found = inspect.signature(op).parameters.values()
        tensors = [p.name for p in found if p.kind != inspect.Parameter.KEYWORD_ONLY]
        attributes = [p.name for p in found if p.kind == inspect.Parameter.KEYWORD_ONLY]
        assert tensors == list(op.signature.inputs)
        assert attributes == op.signature.parameters
    assert str(inspect.signature(ops.softmax)) == "(x: 'Value', *, axis: 'int' = -1) -> 'y'"
    assert str(inspect.signature(ops.layer_norm)) == (
        "(x: 'Value', scale: 'Value | None' = None, bias: 'Value | None' = None, *, axis: 'int' = -1, "
        "epsilon: 'float' = 1e-05) -> 'y, mean, inverse_deviation'"
    )
    assert str(inspect.signature(ops.dropout)).startswith(
        "(x: 'Value', seed: 'Value' = <the state of that name>, step: 'Value' = <the state of that name>, *, ratio:"
    )
    assert "registry" not in str(inspect.signature(type(ops.softmax)))  # the class has its own


def test_help_shows_what_an_operator_takes():
    page = pydoc.plain(pydoc.render_doc(ops.softmax))
    assert "ops.softmax(x, *, axis=-1) -> y" in page
    assert "Return exp(x), scaled to sum to 1" in page
    assert "ops.conv2d(x, w, *, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1) -> y" in pydoc.plain(
        pydoc.render_doc(ops.conv2d)
    )


def test_an_operator_that_may_have_no_operand_shows_how_it_is_called():
    assert repr(ops.full) == "ops.full.on(program)(*, shape, value, dtype='float32') -> y"
    assert repr(ops.uniform).startswith("ops.uniform.on(program)(seed=<the state of that name>, ")
    assert repr(ops.relu) == "ops.relu(x) -> y"
    program = Program()
    assert ops.full.on(program)(shape=(3,), value=1.0).shape == (3,)


def test_a_family_of_operators_is_no_operator(capsys: pytest.CaptureFixture[str]):
    sentence = (
        "there is no operator 'attention'; write ops.scaled_dot_product_attention, or layers.attention, which has "
    )
    with pytest.raises(AttributeError, match=f"^{sentence}weights$"):
        _ = ops.attention  # pyright: ignore
    assert not [name for name, thing in vars(ops).items() if inspect.ismodule(thing)]
    assert importlib.import_module("registry.ops.attention").__name__ == "registry.ops.attention"
    assert main(["ops", "attention"]) == 2
    assert capsys.readouterr().err == f"compiler: {sentence}weights\n"


def test_things_say_what_they_hold():
    program = network()
    assert repr(program) == "<Program 'digits': inputs x, label; 16 states with 185 elements; 37 ops>"
    compiled = program.compile(batch=2)
    entries = "train with batch=2, predict with batch=2, evaluate with batch=2"
    assert repr(compiled) == f"<Compiled 'digits': entries {entries}>"
    run = Run(compiled)
    assert repr(run) == "<Run 'digits': step 0, entries train, predict, evaluate, 19 states>"
    assert "  output.w  float32[8, 3]" in repr(run.state)
    assert repr(adam(beta1=0.5)) == "<Optimizer adam: beta1=0.5, beta2=0.999, epsilon=1e-08, decay=0.0>"
    assert repr(sgd(0.1)) == "<Optimizer sgd: decay=0.0>"


def test_states_and_tensors_are_completed():
    program = network()
    assert {"x", "output.w"} <= set(program._ipython_key_completions_())
    run = Run(program.compile(batch=2))
    assert run.state._ipython_key_completions_() == list(run.state)


def test_entries_say_what_they_are_fed_and_fetch():
    compiled = network().compile(batch=2)
    run = Run(compiled)
    assert repr(run.entries["train"]) == (
        "<Entry 'train': feeds x float32[batch, 4], label int64[batch]; fetches loss, rate; batch=2>"
    )
    assert repr(compiled.entries["predict"]) == (
        "<Entry 'predict': feeds x float32[batch, 4]; fetches y; batch=2 or batch=1>"
    )
    assert repr(run.entries).splitlines() == ["entries", *(f"  {view!r}" for view in run.entries.values())]
    assert run.entries["predict"].feeds["x"].shape == ("batch", 4)
    assert run.entries._ipython_key_completions_() == list(compiled.entries) == ["train", "predict", "evaluate"]
    with pytest.raises(
        KeyError, match="there is no entry 'pedict'; did you mean 'predict'\\? There are train, predict, "
    ):
        run.entries["pedict"]


def test_what_was_fetched_says_what_it_holds():
    run = Run(network().compile(batch=2))
    run.state["output.b"] = np.ones(3, np.float32)
    given = run.predict(np.zeros((2, 4), np.float32))
    assert isinstance(given, dict)
    assert given._ipython_key_completions_() == ["y"]  # pyright: ignore
    with pytest.raises(KeyError, match="nothing was fetched as 'yy'; did you mean 'y'\\? There is y"):
        given["yy"]
    with pytest.raises(AttributeError, match=r"^what was fetched has no attribute 'y'; write \['y'\]$"):
        _ = given.y  # pyright: ignore
    assert given._repr_html_() == (  # pyright: ignore
        "<table><thead><tr><th>name</th><th>type</th><th>value</th></tr></thead>"
        "<tbody><tr><td>y</td><td>float32[2, 3]</td><td>1 … 1</td></tr></tbody></table>"
    )
    assert copy.deepcopy(given).keys() == pickle.loads(pickle.dumps(given)).keys() == {"y"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.5, ("float", "0.5")),
        (np.float32(2), ("float32[]", "2")),
        (np.array([True, False, True]), ("bool[3]", "2 of 3 are true")),
        (np.array(True), ("bool[]", "True")),
        (np.zeros((0, 2), np.int64), ("int64[0, 2]", "")),
        (np.array([np.nan, 1]), ("float64[2]", "nan … nan")),
        (np.array([0x3F80, 0x4000], np.uint16).view(BFLOAT16), ("bfloat16[2]", "1 … 2")),
    ],
)
def test_arrays_are_shown_by_type_and_range(value: object, shown: tuple[str, str]):
    assert described(value) == shown


def test_a_long_table_is_cut():
    rows = [(str(i), "<b>") for i in range(MAX_TABLE_ROWS + 3)]
    shown = table(("a", "b"), rows)
    assert shown.count("<tr>") == 1 + MAX_TABLE_ROWS + 1
    assert "<td>and 3 more</td>" in shown
    assert "<b>" not in shown


def test_a_run_is_shown_with_its_entries_settings_and_states():
    program = Program("a<b>")
    w = program.parameter("w", (2,), constant(0.5))
    program.minimize(ops.sum(w * w), sgd(program.setting("rate", 0.1)))
    run = Run(program.compile())
    shown = run._repr_html_()
    assert f"<p><b>a&lt;b&gt;</b>: step 0, program {run.sha256[:12]}</p>" in shown
    assert "<tr><td>train</td><td>-</td><td>loss, rate</td></tr>" in shown
    assert "<tr><td>rate</td><td>0.1</td></tr>" in shown
    assert "<tr><td>w</td><td>float32[2]</td><td>0.5 … 0.5</td></tr>" in shown
    assert run.settings._ipython_key_completions_() == ["rate"]
    with pytest.raises(KeyError, match="there is no setting 'rat'; did you mean 'rate'\\? There is rate"):
        run.settings["rat"]


def test_the_hash_of_the_states_is_that_of_the_result_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program = network()
    program.compile(batch=2).save(tmp_path / "p.pb")
    run = prograd.load(tmp_path / "p.pb")
    before = run.state_sha256
    run.step({"x": np.ones((2, 4), np.float32), "label": [0, 1]})
    assert run.state_sha256 != before
    run.save(tmp_path / "s.safetensors")
    again = prograd.load(tmp_path / "p.pb")
    assert again.state_sha256 == before
    again.resume(tmp_path / "s.safetensors")
    assert again.state_sha256 == run.state_sha256
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    words = ["execute", str(tmp_path / "p.pb"), "--entry", "predict", "--feed", f"x=@{tmp_path / 'x.npy'}"]
    assert runtime_main(words) == 0
    assert capsys.readouterr().out.split("state_sha256=")[1].strip() == before


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p: Run(p), "a Program is compiled before it runs, as in prograd.Run(program.compile(batch=32))"),
        (lambda p: Run("p.pb"), "Run takes a program; prograd.load('p.pb') reads one from its file"),
        (lambda p: Run(3), "Run takes what program.compile(batch=32) gives, not int"),
        (lambda p: p.fit, "a Program has no 'fit'; write prograd.Run(program.compile(batch=32)).train()"),
        (lambda p: p.compile(batch=2).sav, "a compiled program has no 'sav'; did you mean 'save'?"),
        (lambda p: p.compile(batch=2).predict,
         "a compiled program has no 'predict'; write prograd.Run(compiled).predict"),
        (lambda p: Run(p.compile(batch=2)).evalute, "a Run has no 'evalute'; did you mean 'evaluate'?"),
        (lambda p: Run(p.compile(batch=2)).fit, "a Run has no 'fit'; write run.train(data=(x, y))"),
        (lambda p: layers.dens, "there is no layer 'dens'; did you mean 'dense'?"),
        (lambda p: layers.Linear, "there is no layer 'Linear'; write layers.dense"),
        (lambda p: layers.LSTM, "there is no layer 'LSTM'; write layers.lstm"),
        (lambda p: layers.ReLU, "there is no layer 'ReLU', as it has no parameters; write ops.relu"),
        (lambda p: layers.blue, "there is no layer 'blue'; there are attention, "
         "attention_cache, batch_norm, cached_attention, cached_transformer_block, conv, conv_norm, dense, dropout, "
         "embedding, group_norm, gru, layer_norm, lstm, positions, residual, sinusoidal_positions, "
         "sparse_dense, transformer_block"),
        (lambda p: prograd.data.load, "prograd.data has no 'load'; it has decode, encode, pack, sample, write"),
        (lambda p: prograd.clipping.size, "prograd.clipping has no 'size'; it has by_norm, by_value, global_norm"),
        (lambda p: prograd.trust_ratios.lam, "prograd.trust_ratios has no 'lam'; did you mean 'lamb'?"),
        (lambda p: prograd.optimizers.adan, "prograd.optimizers has no 'adan'; did you mean 'adam'?"),
        (lambda p: prograd.initialisers.he_norm, "prograd.initialisers has no 'he_norm'; did you mean 'he_normal'?"),
        (lambda p: prograd.schedules.cosin, "prograd.schedules has no 'cosin'; did you mean 'cosine'?"),
        (lambda p: prograd.metrics.confusion, "prograd.metrics has no 'confusion'; did you mean 'confusion_matrix'?"),
        (lambda p: prograd.data.pak, "prograd.data has no 'pak'; did you mean 'pack'?"),
        (lambda p: prograd.adm, "there is no 'adm' in prograd; did you mean 'adam'?"),
        (lambda p: runtime.lod, "module 'runtime' has no attribute 'lod'; did you mean 'load'?"),
        (lambda p: compiler.Progam, "module 'compiler' has no attribute 'Progam'; did you mean 'Program'?"),
    ],
)  # fmt: skip
def test_names_that_are_not_there_lead_to_those_that_are(call: Callable[[Any], object], sentence: str):
    assert told((AttributeError, UsageError), lambda: call(network())) == sentence


def test_notebooks_complete_layers_and_nothing_that_their_files_import():
    assert "dense" in dir(layers)
    assert not {"asked", "Program", "annotations"} & set(dir(layers))
    assert dir(prograd.data) == ["decode", "encode", "pack", "sample", "write"]


def test_notebooks_show_summaries():
    program = network()
    shown = program._repr_html_()
    assert shown.startswith("<pre>digits: x float32[batch, 4], label int64[batch]")
    assert "encoder.hidden" in program.compile(batch=2)._repr_html_()
    named = Program("a<b>")
    named.input("x", "float32", ("batch",))
    assert "<b>" not in named._repr_html_(), "names are escaped"


def test_averages_are_summed_up_with_the_layer_of_their_parameters():
    program = Program("averaged")
    x = program.input("x", "float32", ("rows", 3))
    program.minimize(ops.mean(layers.dense(x, "net.out", 2)), sgd(0.1))
    program.average(0.9)
    row = next(line for line in program.summary().splitlines() if line.startswith("net.out"))
    assert row.split("  ", 1)[1].split() == [
        "[rows,",
        "2]",
        "w",
        "[3,",
        "2],",
        "b",
        "[2],",
        "average",
        "of",
        "2",
        "8",
        "0",
        "8",
    ]


def test_the_output_of_a_layer_is_that_of_the_last_op_that_joins_its_states_with_rows():
    program = Program("words")
    h = layers.embedding(program.input("x", "int64", ("rows", 5)), "words", 7, 3)
    h = ops.reshape(layers.dense(h, "hidden", 4), shape=("rows", 20))
    program.minimize(ops.mean(layers.dense(h, "out", 2)), sgd(0.1))
    rows = {line.split("  ")[0]: line for line in program.summary().splitlines()}
    assert [shape in rows[layer] for layer, shape in (("words", "[rows, 5, 3]"), ("hidden", "[rows, 5, 4]"))] == [
        True
    ] * 2
    assert "[rows, 2]" in rows["out"]


def test_a_layer_that_reads_random_numbers_has_an_output():
    program = Program("noise")
    noise = ops.normal.on(program)(shape=("rows", 3))
    program.minimize(ops.mean(layers.dense(noise, "out", 2)), sgd(0.1))
    assert "[rows, 2]" in next(line for line in program.summary().splitlines() if line.startswith("out"))


def test_a_summary_has_layers_by_scope_and_entries(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program = network()
    program.compile(batch=2).save(tmp_path / "p.pb")
    assert main(["summary", str(tmp_path / "p.pb")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "digits: x float32[batch, 4], label int64[batch]"
    assert shown[2:7] == [
        "layer           output      states                                       trained  frozen  buffers",
        "encoder.hidden  [batch, 8]  w [4, 8], b [8]                                    0      40        0",
        "encoder.norm    [batch, 8]  scale [8], bias [8], mean [8], variance [8]       16       0       16",
        "output          [batch, 3]  w [8, 3], b [3]                                   27       0        0",
        "in all 43 trained, 40 frozen, 16 in buffers; 86 in 8 slots of optimizers",
    ]
    assert [line.split()[:3] for line in shown[8:]] == [
        ["entry", "does", "sizes"],
        ["train", "trains", "batch=2"],
        ["predict", "computes", "batch=2"],
        ["evaluate", "computes", "batch=2"],
    ]
    assert program.summary().splitlines()[2:7] == shown[2:7]


def test_a_summary_has_no_layers_of_metrics_and_counts_their_totals():
    program = Program("judged")
    x, label = program.input("x", "float32", ("batch", 4)), program.input("label", "int64", ("batch",))
    scores = layers.dense(x, "out", 3)
    program.metrics(f1=metrics.f1(scores, label), confusion=metrics.confusion_matrix(scores, label))
    lines = program.summary().splitlines()
    assert [line.split("  ")[0] for line in lines[3:5]] == [
        "out",
        "in all 15 trained, 0 frozen, 0 in buffers; 0 in 0 slots of optimizers, 18 in 2 totals of epochs",
    ]
