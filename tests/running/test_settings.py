"""Settings: a run with another value is the run of a program that was built with it, and says so everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import fields, told
from subjects.commands import run_runtime as run
from subjects.small_programs import arrays, save

import runtime
from compiler import (
    OpError,
    Program,
    adamw,
    by_value,
    constant,
    global_norm,
    lion,
    nadam,
    ops,
    schedules,
    sgd,
    warmup_cosine,
    zeros,
)
from prograd import layers
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb


def line(*, rate=0.1, decay=0.0, limit=2.0, scale=1.0, make=adamw, settings=True, **more):
    """y = x w + b with numbers that are settings, or the same numbers as numbers."""
    program = Program("line", seed=5)

    def number(name, value, **bounds):
        return program.setting(name, value, **bounds) if settings else value

    x, y = program.input("x", "float32", ("batch", 3)), program.input("y", "float32", ("batch",))
    w, b = program.parameter("w", (3,), constant(0.1)), program.parameter("b", (), zeros())
    prediction = ops.sum(x * w, axis=(1,)) * number("scale", scale, above=0) + b
    optimizer = make(
        warmup_cosine(number("rate", rate)), decay=number("decay", decay), clip=global_norm(number("limit", limit))
    )
    program.minimize(ops.squared_error(prediction, y), optimizer, **more)
    program.outputs(prediction=prediction)
    return program


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return save(line(), tmp_path)


def trained(program, **settings):
    compiled = program.compile(batch=4)
    made = runtime.Run(compiled, settings=settings)
    data = {name: array[:28] for name, array in arrays().items() if name in ("x", "y")}
    for _ in made.events(data=data, epochs=2):
        pass
    return made


@pytest.mark.parametrize(("name", "value"), [("rate", 3e-4), ("limit", 0.3), ("scale", 0.7)])
def test_a_run_with_another_value_has_the_bits_of_a_program_that_was_built_with_it(name, value):
    one, other = trained(line(), **{name: value}), trained(line(settings=False, **{name: value}))
    for state in ("w", "b"):
        assert np.array_equal(one.state[state], other.state[state])
    assert one.settings[name] == value
    assert not np.array_equal(one.state["w"], trained(line()).state["w"])


@pytest.mark.parametrize("make", [sgd, adamw, lion, nadam])
def test_a_decay_that_is_a_setting_is_the_decay_of_the_optimizer(make):
    one, other = trained(line(make=make), decay=0.2), trained(line(make=make, settings=False, decay=0.2))
    np.testing.assert_allclose(one.state["w"], other.state["w"], rtol=2e-6)
    assert abs(one.state["w"] - trained(line(make=make)).state["w"]).max() > 1e-4


SCHEDULES = {
    "number": lambda rate: rate,
    "constant": schedules.constant,
    "step": lambda rate: schedules.step(rate, every=3),
    "multi_step": lambda rate: schedules.multi_step(rate, milestones=[2, 4]),
    "piecewise": lambda rate: schedules.piecewise(milestones=[2], rates=[rate, 0.01]),
    "exponential": lambda rate: schedules.exponential(rate, factor=0.9),
    "inverse_time": lambda rate: schedules.inverse_time(rate, factor=0.1),
    "polynomial": lambda rate: schedules.polynomial(rate, power=2.0, final=0.001),
    "cosine": lambda rate: schedules.cosine(rate, final=0.001),
    "cosine_restarts": lambda rate: schedules.cosine_restarts(rate, period=3, growth=1.5),
    "one_cycle": schedules.one_cycle,
    "linear_warmup": lambda rate: schedules.linear_warmup(rate, steps=3),
    "twice": lambda rate: 2 * rate,
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_takes_a_setting(name):
    def rates(make):
        program = Program()
        x, w = program.input("x", "float32", (2,)), program.parameter("w", (2,))
        program.minimize(ops.mean(x * w), sgd(make(program)))
        made = runtime.Run(program.compile(), settings={"r": 0.3} if program.states.get("r") else {})
        made.state["total_steps"] = 8
        return [float(made.step({"x": np.ones(2, np.float32)})["rate"]) for _ in range(8)]

    wanted = rates(lambda program: SCHEDULES[name](0.3))
    assert rates(lambda program: SCHEDULES[name](program.setting("r", 0.5))) == wanted


def test_dropout_by_a_setting_drops_that_part_scales_the_rest_and_rests_outside_training():
    program = Program(seed=3)
    x, w = program.input("x", "float32", ("n", 100)), program.parameter("w", (100,), constant(1.0))
    y = layers.dropout(x * w, program.setting("drop", 0.5))
    program.minimize(ops.sum(y), sgd(0.0))
    program.fetch("y", y)
    program.outputs(y=y)
    made = runtime.Run(program.compile(n=100), settings={"drop": 0.25})
    ones = np.ones((100, 100), np.float32)
    found = made.step({"x": ones})["y"]
    assert set(np.unique(found)) == {0.0, np.float32(1) / np.float32(0.75)}
    assert abs((found == 0).mean() - 0.25) < 0.02
    assert not np.array_equal(found, made.step({"x": ones})["y"])
    made.set(drop=0.0)
    assert np.array_equal(made.step({"x": ones})["y"], ones)
    assert np.array_equal(made.predict(ones)["y"], ones)
    predict = next(e for e in made.program.entries if e.name == "predict")
    types = {op.type for op in made.program.blocks[predict.bindings[0].block].ops}
    assert types == {"mul"}, "outside training nothing is drawn"


def test_the_result_line_the_record_and_replay_have_the_settings(path, capsys):
    code, out, _ = run(capsys, "execute", "p.pb", "-q", "--set", "rate=3e-4", "--record", "r.json")
    assert code == 0
    assert {k: v for k, v in fields(out[-1]).items() if k.startswith("set.")} == {
        "set.scale": "1.0", "set.rate": "0.0003", "set.decay": "0.0", "set.limit": "2.0",
    }  # fmt: skip
    assert json.loads(Path("r.json").read_text())["settings"]["rate"] == "0.0003"
    assert run(capsys, "replay", "p.pb", "-q", "--record", "r.json")[0] == 0
    digest = fields(out[-1])["state_sha256"]
    assert run(capsys, "replay", "p.pb", "-q", "--set", "rate=0.0003", "--expect-sha256", digest)[0] == 0
    assert run(capsys, "replay", "p.pb", "-q", "--expect-sha256", digest)[0] == 1
    code, _, err = run(capsys, "replay", "p.pb", "-q", "--record", "r.json", "--set", "rate=1")
    assert (code, err) == (2, "runtime: --record and --set both say what to run; leave --set out\n")
    assert run(capsys, "profile", "p.pb", "-q", "--set", "rate=1", "--steps", "1")[0] == 0
    Path("s.json").write_text(json.dumps(json.loads(Path("r.json").read_text()) | {"settings": {"rate": "many"}}))
    code, _, err = run(capsys, "replay", "p.pb", "-q", "--record", "s.json")
    assert (code, err) == (4, "runtime: s.json: the record is damaged: its setting 'rate' is 'many', no number\n")


def test_a_run_goes_on_with_the_settings_that_it_began_with(path, capsys):
    whole = fields(run(capsys, "execute", "p.pb", "-q", "--set", "rate=0.05")[1][-1])["state_sha256"]
    kept = ["--checkpoint", "ck", "--every", "5"]
    events = runtime.load("p.pb", settings={"rate": 0.05}).events(checkpoint="ck", every=5)
    for _ in range(8):
        next(events)
    events.close()
    code, _, err = run(capsys, "execute", "p.pb", "-q", *kept, "--resume", "--set", "rate=0.01")
    assert code == 2
    assert err == (
        "runtime: ck: the run has the setting rate=0.05, and 0.01 is asked for; a run goes on with the settings that "
        "it began with; leave rate out, or ask for the change: --change-settings\n"
    )
    code, out, _ = run(capsys, "execute", "p.pb", "-q", *kept, "--resume", "--set", "rate=0.05", "--save", "a")
    assert (code, fields(out[-1])["state_sha256"]) == (0, whole)
    changed = runtime.load("p.pb", settings={"rate": 0.01})
    changed.resume("a", change_settings=True)
    assert changed.settings["rate"] == 0.01
    loaded = runtime.load("p.pb")
    loaded.load("a")
    assert loaded.settings["rate"] == 0.1, "what was trained does not bring its settings along"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--set", "rate=-1"], "the setting 'rate' is from 0 on, and -1 is not"),
        (["--set", "scale=0"], "the setting 'scale' is above 0, and 0 is not"),
        (["--set", "rte=1"], "the program has no setting 'rte'; did you mean 'rate'?"),
        (["--set", "zzzzzz=1"], "the program has no setting 'zzzzzz'; its settings are: scale, rate, decay, limit"),
        (["--set", "rate=1", "--set", "rate=2"], "--set rate: the setting is given twice, as 1 and as 2"),
        (["--change-settings"], "--change-settings belongs to --resume"),
        (["--set", "rate"], "argument --set: 'rate' is not NAME=NUMBER, as in rate=3e-4; see runtime execute --help"),
        (
            ["--set", "rate=nan"],
            "argument --set: 'rate=nan' is not NAME=NUMBER, as in rate=3e-4; see runtime execute --help",
        ),
    ],
)
def test_what_cannot_be_set_is_refused_in_a_sentence(path, capsys, options, sentence):
    code, out, err = run(capsys, "execute", "p.pb", "-q", *options)
    assert (code, out, err) == (2, [], f"runtime: {sentence}\n")


def built(make):
    program = Program()
    x, w = program.input("x", "float32", (2,)), program.parameter("w", (2,))
    make(program)
    return program, x, w


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda p: p.setting("a", 1.5, below=1), "setting 'a': 1.5 is not below 1"),
        (lambda p: p.setting("a", float("nan")), "setting 'a': nan is not any finite number"),
        (lambda p: p.setting("a", "1"), "setting 'a': '1' is no number"),
        (lambda p: p.setting("a", 1.5, dtype="int64"), "setting 'a': 1.5 is no int64"),
        (lambda p: p.setting("a", 1, dtype="bool"), "setting 'a': dtype='bool' is not one of float64, float32, int64"),
        (lambda p: p.setting("a", 1, least=3, most=2), "setting 'a': no number is from 3 on and at most 2"),
        (
            lambda p: p.setting("a", 1, least=0, above=0),
            "setting 'a': least and above, most and below are the same end, with it and without; give one",
        ),
        (
            lambda p: p.setting("w", 1),
            "setting 'w': the name is taken by another tensor of this program; choose another, or a scope",
        ),
        (lambda p: sgd(p.setting("a", -1.0)), "constant: rate: the setting 'a' is -1, which is not from 0 on"),
        (lambda p: by_value(p.setting("a", 0.0)), "by_value: limit: the setting 'a' is 0, which is not above 0"),
        (
            lambda p: layers.dropout(p.state("w"), p.setting("a", 1.0)),
            "dropout: ratio: the setting 'a' is 1, which is not from 0 on and below 1",
        ),
        (lambda p: adamw(0.1, decay=p.state("w")), "decay=%w: float32[2] is neither a number nor a setting"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_while_building(make, sentence):
    assert told(OpError, lambda: built(make)).endswith(sentence)


def test_whole_numbers_stay_whole():
    program = Program()
    x = program.input("x", "float32", ("n",))
    program.outputs(y=x * ops.cast(program.setting("k", 3, dtype="int64"), dtype="float32"))
    made = runtime.Run(program.compile(n=2), settings={"k": 2})
    assert made.predict(np.ones(2, np.float32))["y"].tolist() == [2, 2]
    with pytest.raises(runtime.UsageError, match=r"^the setting 'k' is a whole number of 64 bits, and 2.5 is not$"):
        made.set(k=2.5)
    with pytest.raises(runtime.UsageError, match=r"^the setting 'k' is a number, and not '2'$"):
        made.set(k="2")
    assert repr(made.settings) == "settings\n  k = 2"


def test_a_program_that_is_opened_still_has_its_settings(path):
    program = Program.load(path)
    program.outputs(twice=program.tensor("x") * (2 * program["scale"]))
    compiled = program.compile()
    compiled.save("q.pb")
    made = runtime.load("q.pb", settings={"scale": 3})
    assert made.predict(np.ones((4, 3), np.float32))["twice"].tolist() == [[6.0] * 3] * 4
    with pytest.raises(runtime.UsageError, match="is above 0"):
        made.set(scale=0)


def test_a_step_that_failed_is_kept_with_its_settings(path, capsys):
    with pytest.raises(runtime.NonFinite) as caught:
        for _ in runtime.load("p.pb", check_nan=True, settings={"scale": 1e30}).events():
            pass
    runtime.write_reproducer(runtime.load("p.pb").program, caught.value.step, "bad")
    assert runtime.load("bad/program.pb").settings["scale"] == 1e30
    assert run(capsys, "execute", "bad/program.pb", "-q", "--check-nan")[0] == 5


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s, p: setattr(s, "slot", "setting [1, "), "'setting [1, ' is no interval"),
        (lambda s, p: setattr(s, "slot", "setting [2.0, 1.0]"), "'setting [2.0, 1.0]' has no numbers"),
        (lambda s, p: setattr(s, "slot", "setting [x, 1.0]"), "could not convert string to float: 'x'"),
        (lambda s, p: setattr(s, "slot", "setting [5.0, 6.0]"), "its first value 1.0 is not from 5 on and at most 6"),
        (lambda s, p: setattr(s, "lifespan", pb.LIFESPAN_EPOCH), "it does not last"),
        (lambda s, p: s.ClearField("op"), "its first value is no number that is written in the program"),
        (lambda s, p: p.blocks[0].updates.add(state="scale", tensor="scale"), "a step updates it"),
        (lambda s, p: s.shape.dims.add(size=1), "it is float64[1], no scalar of float64, float32, int64"),
    ],
)  # fmt: skip
def test_a_file_whose_settings_lie_is_refused(path, change, sentence):
    program = runtime.load(path).program
    state = next(s for s in program.states if s.name == "scale")
    change(state, program)
    with pytest.raises(ProgramError) as caught:
        runtime.Run(program)
    assert str(caught.value).removeprefix("setting 'scale': ").removeprefix("state 'scale': ") in (
        sentence, "its initial op gives float64[], not float64[1]",
    )  # fmt: skip


def test_the_summary_of_a_program_has_its_settings(path):
    lines = Program.load(path).summary().splitlines()
    assert lines[1] == "settings: scale 1 (above 0), rate 0.1 (from 0 on), decay 0 (from 0 on), limit 2 (above 0)"
    assert lines[2] == ""
