"""What a notebook or a prompt shows: signatures of operators, what things say of themselves, what may be completed."""

import inspect
import pydoc
from pathlib import Path

import pytest

from compiler.__main__ import main
from prograd import Program, Run, adam, layers, ops, sgd
from registry import OPS


def network() -> Program:
    program = Program("digits")
    x, label = program.input("x", "float32", ("batch", 4)), program.input("label", "int64", ("batch",))
    with program.scope("encoder"):
        x = layers.batch_norm(program, "norm", layers.dense(program, "hidden", x, 8))
    y = layers.dense(program, "output", x, 3)
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
        assert attributes == list(op.signature.attributes)
    assert str(inspect.signature(ops.softmax)) == "(x: 'Value', *, axis: 'int' = -1) -> 'y'"
    assert str(inspect.signature(ops.layer_norm)) == (
        "(x: 'Value', scale: 'Value | None' = None, bias: 'Value | None' = None, *, axis: 'int' = -1, "
        "epsilon: 'float' = 1e-05) -> 'y, mean, inverse_deviation'"
    )
    assert str(inspect.signature(ops.dropout)).startswith(
        "(x: 'Value', seed: 'Value' = <the state of that name>, step: 'Value' = <the state of that name>, *, rate:"
    )
    assert "registry" not in str(inspect.signature(type(ops.softmax)))  # the class has its own


def test_help_shows_what_an_operator_takes():
    page = pydoc.plain(pydoc.render_doc(ops.softmax))
    assert "ops.softmax(x, *, axis=-1) -> y" in page
    assert "The powers of e, scaled to sum to 1" in page
    assert "ops.conv2d(x, w, *, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1) -> y" in pydoc.plain(
        pydoc.render_doc(ops.conv2d)
    )


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


def test_notebooks_show_summaries():
    program = network()
    shown = program._repr_html_()
    assert shown.startswith("<pre>digits: x float32[batch, 4], label int64[batch]")
    assert "encoder.hidden" in program.compile(batch=2)._repr_html_()
    named = Program("a<b>")
    named.input("x", "float32", ("batch",))
    assert "<b>" not in named._repr_html_(), "names are escaped"


def test_a_summary_has_layers_by_scope_and_entries(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program = network()
    program.compile(batch=2).save(tmp_path / "p.pb")
    assert main(["summary", str(tmp_path / "p.pb")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "digits: x float32[batch, 4], label int64[batch]"
    assert shown[2:7] == [
        "layer           states                                       trained  frozen  buffers",
        "encoder.hidden  w [4, 8], b [8]                                    0      40        0",
        "encoder.norm    scale [8], bias [8], mean [8], variance [8]       16       0       16",
        "output          w [8, 3], b [3]                                   27       0        0",
        "in all 43 trained, 40 frozen, 16 in buffers; 86 in 8 slots of optimizers",
    ]
    assert [line.split()[:3] for line in shown[8:]] == [
        ["entry", "does", "sizes"],
        ["train", "trains", "batch=2"],
        ["predict", "computes", "batch=2"],
        ["evaluate", "computes", "batch=2"],
    ]
    assert program.summary().splitlines()[2:7] == shown[2:7]
