"""The command `runtime`, as a user sees it: what it prints, what it writes, and how it ends."""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from subjects.commands import fields
from subjects.commands import run_runtime as run
from subjects.small_programs import arrays, linear, rich, save, write_data

from compiler import Program, constant, ops, sgd
from prograd_proto.files import load
from prograd_proto.files import save as save_program


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `p.pb`, its rows, and rows of its own to feed."""
    save(rich(), tmp_path)
    np.save(tmp_path / "x.npy", arrays()["x"][:7])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_execute_trains_evaluates_and_ends_with_one_result_line(folder, capsys):
    code, out, err = run(capsys, "execute", "p.pb")
    assert (code, len(out)) == (0, 1)
    result = fields(out[0])
    assert list(result)[:2] == ["entry", "steps"]
    assert list(result)[-7:] == ["wall", "arena", "state", "rss", "engine", "threads", "state_sha256"]
    assert {"loss", "evaluate.loss", "evaluate.mean"} <= result.keys()
    assert re.fullmatch("[0-9a-f]{64}", result["state_sha256"])
    assert "epoch 3" in err


def test_two_runs_and_any_number_of_threads_give_the_same_hash(folder, capsys):
    lines = [run(capsys, "execute", "p.pb", "-q", "--threads", threads)[1][-1] for threads in (1, 1, 2, 3)]
    assert len({fields(line)["state_sha256"] for line in lines}) == 1
    other = fields(run(capsys, "execute", "p.pb", "-q", "--seed", 1)[1][-1])
    assert other["state_sha256"] != fields(lines[0])["state_sha256"]


def test_saved_states_evaluate_and_predict(folder, capsys):
    assert run(capsys, "execute", "p.pb", "-q", "--save", "trained.safetensors")[0] == 0
    code, out, err = run(capsys, "execute", "p.pb", "-q", "--entry", "evaluate", "--load", "trained.safetensors")
    assert (code, err) == (0, "")
    assert fields(out[-1])["entry"] == "evaluate"
    arguments = ["--entry", "predict", "--load", "trained.safetensors", "--feed", "x=@x.npy"]
    assert run(capsys, "execute", "p.pb", "-q", *arguments, "--fetch", "prediction=@y.npy")[0] == 0
    w = load_file("trained.safetensors")["w"]
    np.testing.assert_allclose(np.load("y.npy"), np.load("x.npy") @ w, rtol=1e-5)


def test_expect_compares_and_ends_with_code_1(folder, capsys):
    assert run(capsys, "execute", "p.pb", "-q", "--save", "s.safetensors")[0] == 0
    arguments = ["execute", "p.pb", "-q", "--load", "s.safetensors", "--entry", "predict", "--feed", "x=@x.npy"]
    assert run(capsys, *arguments, "--fetch", "prediction=@y.npy")[0] == 0
    assert run(capsys, *arguments, "--expect", "prediction=@y.npy")[0] == 0
    np.save("y.npy", np.load("y.npy") + 1)
    code, _, err = run(capsys, *arguments, "--expect", "prediction=@y.npy")
    assert (code, err.count("\n")) == (1, 1)
    assert "prediction" in err


def test_a_stopped_run_resumes_to_the_same_hash(folder, capsys):
    whole = fields(run(capsys, "execute", "p.pb", "-q")[1][-1])
    assert run(capsys, "execute", "p.pb", "-q", "--checkpoint", "ck", "--every", 2, "--max-time", 1e-9)[0] == 6
    code, out, _ = run(capsys, "execute", "p.pb", "-q", "--checkpoint", "ck", "--every", 2, "--resume")
    assert (code, fields(out[-1])["state_sha256"]) == (0, whole["state_sha256"])


def test_metrics_trace_and_json_logs_are_files_a_program_can_read(folder, capsys):
    code, _, err = run(
        capsys,
        "execute",
        "p.pb",
        "--metrics",
        "m.csv",
        "--trace",
        "t.json",
        "--log-format",
        "json",
        "--progress",
        "plain",
    )
    assert code == 0
    assert {json.loads(line)["event"] for line in err.splitlines() if '"event"' in line} >= {"epoch", "evaluation"}
    header, *rows = Path("m.csv").read_text().splitlines()
    assert header.startswith("event,epoch,step,")
    assert len(rows) > 3
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    assert {"adam", "mul"} <= {event["name"] for event in events}
    assert run(capsys, "execute", "p.pb", "-q", "--metrics", "m.jsonl")[0] == 0
    assert all(json.loads(line) for line in Path("m.jsonl").read_text().splitlines())


def test_nothing_is_overwritten_without_force(folder, capsys):
    for option, name in (("--save", "s"), ("--metrics", "m.csv"), ("--trace", "t.json")):
        Path(name).write_text("precious")
        code, out, err = run(capsys, "execute", "p.pb", "-q", option, name)
        assert (code, out, err) == (2, [], f"runtime: {name}: the file exists; --force replaces it\n")
        assert Path(name).read_text() == "precious"
    assert run(capsys, "execute", "p.pb", "-q", "--save", "s", "--force")[0] == 0


SENTENCES = [
    (["execute", "none.pb"], 3, "none.pb: no such file"),
    (["execute", "empty.pb"], 3, "empty.pb: the file is empty"),
    (["execute", "cut.pb"], 3, "cut.pb: this is not a prograd program, or it is damaged or cut short"),
    (["execute", "noise.pb"], 3, "noise.pb: this is not a prograd program, or it is damaged or cut short"),
    (["execute", "p.pb", "--entry", "predct"], 2, "there is no entry 'predct'; did you mean 'predict'?"),
    (["execute", "p.pb", "--epoch", "1"], 2, "there is no option '--epoch'; did you mean '--epochs'?"),
    (["exec", "p.pb"], 2, "there is no verb 'exec'; did you mean 'execute'?"),
    (["execute", "p.pb", "--entry", "predict", "--feed", "z=@x.npy"], 4, "entry 'predict' has no feed 'z'"),
    (
        ["execute", "p.pb", "--entry", "predict", "--feed", "x=@wrong.npy"],
        4,
        "row 0 of 'x' has 16777217, which float32 does not hold",
    ),
    (["execute", "p.pb", "--entry", "predict", "--feed", "x=@narrow.npy"], 4, "the array given is float32[2, 2]"),
    (["execute", "p.pb", "--entry", "predict", "--feed", "x=@none.npy"], 4, "none.npy: no such file"),
    (
        ["execute", "p.pb", "--feed", "x=@x.npy"],
        4,
        "entry 'train' reads the feed 'y': float32[rows], which is not given; "
        "give an array for each feed, or declare rows by program.data",
    ),
    (["execute", "p.pb", "--load", "none.safetensors"], 4, "none.safetensors: no such file"),
    (["execute", "p.pb", "--data", "none.safetensors"], 4, "none.safetensors: no such file"),
    (["execute", "p.pb", "--max-memory", "16"], 6, "and the limit is 16 bytes; allow more by --max-memory"),
    (["execute", "p.pb", "--resume"], 2, "--checkpoint"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"), SENTENCES, ids=lambda v: " ".join(v) if type(v) is list else ""
)
def test_what_is_wrong_is_one_sentence_with_its_code(folder, capsys, arguments, code, sentence):
    Path("empty.pb").write_bytes(b"")
    Path("cut.pb").write_bytes(Path("p.pb").read_bytes()[:900])
    Path("noise.pb").write_bytes(np.random.default_rng(0).bytes(900))
    np.save("wrong.npy", np.full((2, 3), 2**24 + 1))
    np.save("narrow.npy", np.zeros((2, 2), np.float32))
    before = Path("p.pb").read_bytes()
    got, out, err = run(capsys, *arguments)
    assert (got, out) == (code, [])
    assert err.startswith("runtime: ")
    assert err.count("\n") == 1
    assert sentence in err
    assert "Traceback" not in err
    assert Path("p.pb").read_bytes() == before


def test_a_newer_program_an_unknown_op_and_a_lying_type_are_refused(folder, capsys):
    program = load("p.pb")
    program.format_version = 7
    Path("newer.pb").write_bytes(program.SerializeToString())
    program = load("p.pb")
    number = program.entries[0].bindings[0].block
    program.blocks[number].ops[0].type = "mull"
    program.operators.add(type="mull", version=1)
    save_program(program, "op.pb")
    program = load("p.pb")
    program.blocks[number].tensors[-1].shape.dims.add(size=3)
    save_program(program, "type.pb")
    for name, part in (
        ("newer.pb", "newer.pb: format version 7, this prograd reads up to 1"),
        ("op.pb", "this runtime has no kernel 'mull'; the closest is 'mul'"),
        ("type.pb", "type.pb: "),
    ):
        code, out, err = run(capsys, "execute", name)
        assert (code, out, err.count("\n")) == (3, [], 1)
        assert part in err


def test_a_damaged_data_file_is_one_sentence(folder, capsys):
    file = Path("rows.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    code, _, err = run(capsys, "execute", "p.pb")
    assert (code, f"the file has 100 bytes, the program was compiled with one of {len(whole)}" in err) == (4, True)
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    code, _, err = run(capsys, "execute", "p.pb")
    assert (code, "the file's SHA-256 is " in err) == (4, True)
    file.unlink()
    assert run(capsys, "execute", "p.pb")[0] == 4


def test_a_loss_that_is_not_finite_ends_the_run_before_a_checkpoint(folder, capsys):
    program = Program("hot")
    x = program.input("x", "float32", ("batch", 3))
    w = program.parameter("w", (3,), constant(1.0))
    program.minimize(ops.mean(ops.exp(ops.exp(ops.square(x * w) * 50.0))), sgd(1.0))
    save(program, folder, name="hot.pb", evaluate=None, keep_best=None)
    code, out, err = run(capsys, "execute", "hot.pb", "-q", "--checkpoint", "ck", "--every", 1)
    assert (code, out) == (5, [])
    assert err.startswith("runtime: step 1: loss is inf; ")
    assert not list(folder.glob("ck/*"))
    code, _, err = run(capsys, "execute", "hot.pb", "-q", "--check-nan")
    assert code == 5
    assert re.search(r"op \d+ \(exp from .*test_runtime_cli.py:\d+\): %exp_\d+ has \d+ of 12 elements", err)


def test_a_label_out_of_range_is_bad_data(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = Program("labels")
    x = program.input("x", "float32", ("batch", 3))
    w = program.parameter("w", (3,), constant(1.0))
    label = program.input("label", "int64", ("batch",))
    program.minimize(ops.softmax_cross_entropy(x * w, label), sgd(1.0))
    write_data(tmp_path, label=np.full(43, 3))
    save(program, tmp_path, evaluate=None, keep_best=None)
    code, _, err = run(capsys, "execute", "p.pb", "-q")
    assert code == 4
    assert "label 3 is out of range: there are 3 classes, from 0" in err


def test_check_says_what_the_program_is(folder, capsys):
    code, out, err = run(capsys, "check", "p.pb")
    assert (code, err) == (0, "")
    assert fields(out[0])["name"] == "rich"
    assert fields(out[0])["entries"] == "train,evaluate,predict"


def test_profile_has_a_line_per_type_and_stage(folder, capsys):
    code, out, _ = run(capsys, "profile", "p.pb", "--steps", 2)
    assert code == 0
    words = {line.split(" ")[0] for line in out}
    assert {"adam", "mul", "forward", "gradient", "update", "most", "OK"} <= words
    code, out, _ = run(capsys, "profile", "p.pb", "--steps", 2, "--json")
    assert code == 0
    assert json.loads("\n".join(out))


@pytest.mark.parametrize("verb", ["execute", "check", "profile"])
def test_the_help_of_every_verb_has_an_example(capsys, verb):
    code, out, _ = run(capsys, verb, "--help")
    assert code == 0
    assert any(line.startswith(f"  runtime {verb} ") for line in out)


def test_python_m_runtime_is_the_command(folder):
    save(linear(), folder, name="l.pb")
    command = [sys.executable, "-m", "runtime", "execute", "l.pb", "-q", "--steps", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    assert fields(done.stdout.strip())["steps"] == "3"


def test_profile_of_a_program_without_data_feeds_zeros(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    linear().compile(batch=4).save(tmp_path / "l.pb")
    code, out, err = run(capsys, "profile", "l.pb", "--by", "op")
    assert (code, err) == (0, "runtime: warning: the program has no data, so its feeds are zeros\n")
    assert any("small_programs.py:" in line for line in out)
    assert out[-1].startswith("OK entry=train steps=20 ops=")


def test_a_bar_counts_the_steps(folder, capsys):
    _, _, err = run(capsys, "execute", "p.pb", "--progress", "bar")
    assert "| 21/21  epoch 3  " in err
    lines = err.replace("\r", "\n").splitlines()
    above = [line for line in lines if line.startswith("epoch ")]
    assert [line.split("  ")[:2] for line in above] == [[f"epoch {n}", f"step {7 * n}/21"] for n in (1, 2, 3)]
    below = [line for line in lines if line.startswith("  evaluate on test")]
    assert below[-1] == "  evaluate on test: loss 0.1001 mean -0.4358  best so far"


def test_a_terminal_without_a_size_gets_a_bar(folder):
    master, slave = os.openpty()  # of 0 lines and 0 columns
    command = [sys.executable, "-m", "runtime", "execute", "p.pb"]
    with subprocess.Popen(command, stderr=slave, stdout=subprocess.DEVNULL) as process:
        os.close(slave)
        shown = b""
        with suppress(OSError):  # of the terminal's end
            while piece := os.read(master, 1 << 16):
                shown += piece
        os.close(master)
    assert process.returncode == 0
    assert b"| 21/21  " in shown


def test_an_early_end_and_the_states_that_are_kept_are_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(linear(rate=3.0), tmp_path, stop_after=2, epochs=9)  # each epoch is worse than the one before
    code, out, err = run(capsys, "execute", "p.pb")
    assert code == 0
    assert fields(out[-1])["steps"] == "21"
    said = [line for line in err.splitlines() if line.startswith("runtime: ")]
    loss = fields(out[-1])["evaluate.loss"]
    assert said[1:] == [
        "runtime: ended early: loss was not better in the last 2 evaluations",
        f"runtime: the run ends with the states of epoch 1, step 7, which have the best loss: {float(loss):.4g}",
    ]


def test_plain_progress_has_a_line_per_epoch_with_its_evaluation(folder, capsys):
    _, _, err = run(capsys, "execute", "p.pb", "--progress", "plain", "--checkpoint", "ck")
    first, *lines = err.splitlines()
    assert first == "runtime: 3 of 31 rows do not fill a step of 4 and are left out of each epoch"
    assert [line.split("  ")[:2] for line in lines] == [[f"epoch {n}", f"step {7 * n}/21"] for n in (1, 1, 2, 2, 3, 3)]
    assert lines[0].endswith("  evaluate on test: loss 0.7413 mean -0.4736  best so far")
    assert lines[1] == "epoch 1  step 7/21  checkpoint ck/step-0000000007.safetensors"


def test_quiet_is_quiet_and_none_shows_only_messages(folder, capsys):
    assert run(capsys, "execute", "p.pb", "-q")[2] == ""
    err = run(capsys, "execute", "p.pb", "--progress", "none")[2]
    assert err == "runtime: 3 of 31 rows do not fill a step of 4 and are left out of each epoch\n"


def test_json_logs_have_errors_too(folder, capsys):
    code, _, err = run(capsys, "execute", "p.pb", "-q", "--log-format", "json", "--split", "nil")
    assert code == 2
    message = "the data has no split 'nil'; its splits are: train, test"
    assert json.loads(err) == {"event": "log", "level": "error", "message": message}


def test_the_version_is_the_packages(capsys):
    code, out, _ = run(capsys, "--version")
    assert (code, out[0].startswith("prograd ")) == (0, True)
