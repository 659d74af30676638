"""`runtime replay`: the same again, compared; and the record of a run that it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.commands import fields
from subjects.commands import run_runtime as run
from subjects.small_programs import arrays, linear, save, write_data

import runtime
from runtime.commands.replay import _FOR_BITS
from runtime.runs.machine import this_machine


def changed(path: str, **values: Any) -> None:
    """The record with other values."""
    Path(path).write_text(json.dumps(json.loads(Path(path).read_text()) | values))


def test_the_hash_of_a_result_line_is_replayed(folder, capsys):
    digest = fields(run(capsys, "execute", "p.pb", "-q", "--seed", 4, "--steps", 9)[1][-1])["state_sha256"]
    code, out, err = run(capsys, "replay", "p.pb", "-q", "--seed", 4, "--steps", 9, "--expect-sha256", digest)
    assert (code, err) == (0, "")
    assert fields(out[-1])["state_sha256"] == digest
    assert run(capsys, "replay", "p.pb", "-q", "--seed", 4, "--steps", 9, "--expect-sha256", digest.upper())[0] == 0


def test_another_hash_is_said_with_what_it_may_depend_on(folder, capsys):
    digest = fields(run(capsys, "execute", "p.pb", "-q")[1][-1])["state_sha256"]
    code, out, err = run(capsys, "replay", "p.pb", "-q", "--expect-sha256", "0" * 64)
    here = this_machine()
    assert code == 1
    assert out[-1].startswith("FAILED entry=train ")
    assert err == (
        f"runtime: the states differ: state_sha256 is {digest[:16]}..., expected is 0000000000000000...; "
        "the same program, rows, seed and steps give the same bits with one NumPy and BLAS on CPUs of one kind; "
        f"here are numpy {here['numpy']}, {here['blas']}, {here['blas_core']}; "
        "a record, by execute --record, says what was there\n"
    )


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--epochs", 2, "--seed", -3],
        ["--steps", 5, "--split", "test"],
        ["--data", "other.safetensors"],
        ["--load", "begun.safetensors"],
        ["--feed", "x=@x.npy", "--feed", "y=[1, 2, 3, 4]"],
        ["--entry", "evaluate", "--load", "begun.safetensors"],
        ["--entry", "predict", "--load", "begun.safetensors", "--feed", "x=@x.npy"],
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_a_recorded_run_is_replayed_whatever_it_was_asked(folder, capsys, options):
    Path("other").mkdir()
    write_data(Path("other"), x=arrays(1)["x"]).rename("other.safetensors")
    np.save("x.npy", arrays()["x"][:4])
    run(capsys, "execute", "p.pb", "-q", "--seed", 9, "--epochs", 1, "--save", "begun.safetensors")
    assert run(capsys, "execute", "p.pb", "-q", "--record", "run.json", *options)[0] == 0
    files = [
        a for o, v in zip(options[::2], options[1::2], strict=True) if "@" in str(v) or "." in str(v) for a in (o, v)
    ]
    code, _, err = run(capsys, "replay", "p.pb", "-q", "--record", "run.json", *files)
    assert (code, err) == (0, "")


def test_metrics_are_compared_line_by_line(folder, capsys):
    for name in ("m.csv", "m.jsonl"):
        run(capsys, "execute", "p.pb", "-q", "--record", "run.json", "--force", "--metrics", name)
        assert run(capsys, "replay", "p.pb", "-q", "--record", "run.json", "--expect-metrics", name)[0] == 0
    lines = Path("m.csv").read_text().splitlines(keepends=True)
    Path("m.csv").write_text("".join([*lines[:2], "step,1,2,7\n", *lines[3:]]))
    code, out, err = run(capsys, "replay", "p.pb", "-q", "--record", "run.json", "--expect-metrics", "m.csv")
    assert (code, out[-1].split(" ")[0]) == (1, "FAILED")
    assert err.startswith("runtime: the metrics differ from m.csv, first in line 3: 'step,1,2,")
    assert err.endswith(" instead of 'step,1,2,7'\n")
    Path("m.csv").write_text("".join(lines[:-1]))
    err = run(capsys, "replay", "p.pb", "-q", "--record", "run.json", "--expect-metrics", "m.csv")[2]
    assert err.endswith(" instead of 'nothing'\n")
    assert f"first in line {len(lines)}: " in err
    assert {path.name for path in folder.iterdir()} == {"p.pb", "rows.safetensors", "run.json", "m.csv", "m.jsonl"}


def test_what_is_another_machine_is_named(folder, capsys):
    run(capsys, "execute", "p.pb", "-q", "--record", "run.json")
    here = this_machine()
    machine = here | {"numpy": "2.0.0", "simd": here["simd"] + " SVE", "cpu": "another one", "python": "3.99"}
    changed("run.json", machine=machine)
    assert run(capsys, "replay", "p.pb", "-q", "--record", "run.json")[0] == 0, "equal bits are equal bits"
    changed("run.json", state_sha256="ab" * 32)
    code, _, err = run(capsys, "replay", "p.pb", "-q", "--record", "run.json")
    assert code == 1
    assert f"; this may be why: numpy was 2.0.0, is {here['numpy']}; simd -SVE\n" in err
    changed("run.json", machine=here)
    err = run(capsys, "replay", "p.pb", "-q", "--record", "run.json")[2]
    assert err.endswith(
        "; versions and CPU are the record's, and so should the bits be: a plugin or the machine is at fault\n"
    )
    changed("run.json", resumed=True)
    err = run(capsys, "replay", "p.pb", "-q", "--record", "run.json")[2]
    assert err.endswith("; the recorded run went on from a checkpoint, and what that began with is not in the record\n")


def test_a_resumed_run_is_replayed_from_its_start(folder, capsys):
    checkpoint = ["--checkpoint", "ck", "--every", 4]
    assert run(capsys, "execute", "p.pb", "-q", *checkpoint, "--seed", 6, "--keep", 9)[0] == 0
    for file in sorted(Path("ck").glob("step-*"))[1:]:
        file.unlink()
    assert run(capsys, "execute", "p.pb", "-q", *checkpoint, "--resume", "--record", "run.json")[0] == 0
    assert json.loads(Path("run.json").read_text())["seed"] == 6
    assert run(capsys, "replay", "p.pb", "-q", "--record", "run.json")[0] == 0


def test_another_program_or_file_is_said_before_anything_runs(folder, capsys):
    run(capsys, "execute", "p.pb", "-q", "--record", "run.json")
    save(linear(), folder, name="q.pb")
    code, out, err = run(capsys, "replay", "q.pb", "--record", "run.json")
    assert (code, out) == (1, ["FAILED state_sha256=none"])
    assert err.startswith("runtime: this is another program: its program_sha256 is ")
    np.save("x.npy", arrays()["x"][:4])
    options = ["--entry", "predict", "--feed", "x=@x.npy", "--record", "run.json", "--force"]
    assert run(capsys, "execute", "p.pb", "-q", *options)[0] == 0
    np.save("x.npy", arrays(1)["x"][:4])
    code, _, err = run(capsys, "replay", "p.pb", "--record", "run.json", "--feed", "x=@x.npy")
    assert code == 1
    assert err.startswith("runtime: --feed x x.npy is another file: its SHA-256 is ")


USAGE = [
    (
        ["--record", "r.json", "--expect-sha256", "0" * 64],
        "argument --expect-sha256: not allowed with argument --record",
    ),
    ([], "one of the arguments --record --expect-sha256 is required"),
    (["--expect-sha256", "12"], "argument --expect-sha256: '12' is no SHA-256: 64 hexadecimal digits"),
    (
        ["--expect-sha256", "0" * 64, "--expect-metrics", "m"],
        "argument --expect-metrics: 'm' ends in neither .csv nor .jsonl",
    ),
    (["--record", "r.json", "--seed", "1"], "--record and --seed both say what to run; leave --seed out"),
    (
        ["--record", "r.json", "--data", "rows.safetensors"],
        "the recorded run was given no file by --data; leave it out",
    ),
    (["--record", "f.json"], "the recorded run was given a file by --feed x; give it again: --feed x=@FILE"),
]


@pytest.mark.parametrize(("options", "sentence"), USAGE)
def test_what_cannot_be_asked_is_said(folder, capsys, options, sentence):
    run(capsys, "execute", "p.pb", "-q", "--record", "r.json")
    np.save("x.npy", arrays()["x"][:4])
    run(capsys, "execute", "p.pb", "-q", "--entry", "predict", "--feed", "x=@x.npy", "--record", "f.json")
    code, out, err = run(capsys, "replay", "p.pb", "-q", *options)
    assert (code, out) == (2, [])
    assert err.removeprefix("runtime: ").removesuffix("; see runtime replay --help\n").removesuffix("\n") == sentence


DAMAGED = [
    (b"", "this is no record of a run: it is not JSON"),
    (b"\xff\xfe", "this is no record of a run: it is not JSON"),
    (b"[" * 100_000, "this is no record of a run: it is not JSON"),
    (b"[]", "this is no record of a run: it has no format"),
    (b"{}", "this is no record of a run: it has no format"),
    (b" " * ((1 << 20) + 1), "this is no record of a run: it is larger than 1048576 bytes"),
    ({"format": 2}, "the record has format 2, this prograd reads 1"),
    ({"seed": True}, "the record is damaged: its 'seed' is no int"),
    ({"seed": 10**20}, "the record is damaged: it has seed 100000000000000000000 and 21 steps"),
    ({"steps": "7"}, "the record is damaged: its 'steps' is no int"),
    ({"steps": -7}, "the record is damaged: it has seed 7 and -7 steps"),
    ({"feeds": {"x": 1}}, "the record is damaged: its 'feeds' is no dict"),
    ({"machine": None}, "the record is damaged: its 'machine' is no dict"),
]


@pytest.mark.parametrize(("content", "sentence"), DAMAGED, ids=lambda value: str(value)[:40])
def test_a_damaged_record_is_refused_in_a_sentence(folder, capsys, content, sentence):
    run(capsys, "execute", "p.pb", "-q", "--record", "r.json")
    if isinstance(content, dict):
        changed("r.json", **content)
    else:
        Path("r.json").write_bytes(content)
    code, out, err = run(capsys, "replay", "p.pb", "-q", "--record", "r.json")
    assert (code, out, err) == (4, [], f"runtime: r.json: {sentence}\n")


def test_a_record_is_not_written_over_a_file_and_holds_no_path(folder, capsys):
    np.save("x.npy", arrays()["x"][:4])
    options = ["-q", "--entry", "predict", "--feed", "x=@x.npy", "--record", "run.json"]
    assert run(capsys, "execute", "p.pb", *options)[0] == 0
    assert "x.npy" not in Path("run.json").read_text()
    code, _, err = run(capsys, "execute", "p.pb", *options)
    assert (code, err) == (2, "runtime: run.json: the file exists; --force replaces it\n")


def test_a_machine_has_every_word_that_bits_depend_on():
    machine = this_machine()
    assert set(_FOR_BITS) - {"instructions"} <= machine.keys()
    assert this_machine("avx2") == machine | {"instructions": "avx2"}
    assert machine["numpy"] == np.__version__
    assert all(isinstance(word, str) and word for word in machine.values())


def test_a_run_without_a_record_asks_nothing_of_the_machine():
    names = "runtime.runs.machine", "runtime.runs.run_record", "runtime.commands.replay"
    script = f"import sys, runtime.commands.execute; print([n for n in {names} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_library_computes_what_the_command_replays(folder, capsys):
    here = runtime.load("p.pb")
    list(here.events())
    assert run(capsys, "replay", "p.pb", "-q", "--expect-sha256", here.states.sha256())[0] == 0
