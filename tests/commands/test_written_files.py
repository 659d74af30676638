"""Files that verbs write: the suffix is that of the format, a missing folder is named, a full disk is code 6."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import ended
from subjects.small_programs import linear, save

import prograd
from compiler.__main__ import main as compiler
from prograd import Program, layers
from runtime.__main__ import main as runtime

MAINS = {"runtime": runtime, "compiler": compiler}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = Program("wide", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    program.outputs(y=layers.dense(x, "d", 256))
    program.compile(batch=32).save(tmp_path / "wide.pb", force=True)
    np.save(tmp_path / "x.npy", np.ones((32, 64), np.float32))
    save(linear(), tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], command: str) -> tuple[int, str, str]:
    name, *words = command.split()
    return ended(capsys, MAINS[name], *words)


# fmt: off
WRONG = [
    ("runtime execute p.pb --save s.pt", "s.pt: states are written as .safetensors files; write s.safetensors"),
    ("runtime execute p.pb --save s.NPZ", "s.NPZ: states are written as .safetensors files; write s.safetensors"),
    ("runtime execute p.pb --load s.pt --in-place",
     "s.pt: states are written as .safetensors files; write s.safetensors"),
    ("runtime execute p.pb --fetch loss=@p.csv", "p.csv: fetched arrays are written as .npy files; write p.npy"),
    ("runtime execute p.pb --record r.txt", "r.txt: records are written as .json files; write r.json"),
    ("runtime execute p.pb --trace t.html", "t.html: traces are written as .json files; write t.json"),
    ("runtime profile p.pb --trace t.html", "t.html: traces are written as .json files; write t.json"),
    ("runtime sweep p.pb --set rate=1 --results r.csv", "r.csv: results are written as .jsonl files; write r.jsonl"),
    ("compiler compile p.pb -o q.txt", "q.txt: programs are written as .pb files; write q.pb"),
    ("compiler plan p.pb -o q.onnx", "q.onnx: programs are written as .pb files; write q.pb"),
    ("compiler freeze p.pb --states s.safetensors -o q.pt", "q.pt: programs are written as .pb files; write q.pb"),
]
# fmt: on


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("command", "sentence"), WRONG)
def test_a_name_of_another_format_is_refused_before_any_work(command: str, sentence: str, folder: Path, capsys):
    before = sorted(folder.iterdir())
    assert asked(capsys, command) == (2, "", f"{command.split()[0]}: {sentence}\n")
    assert sorted(folder.iterdir()) == before


MISSING = [
    "runtime execute p.pb --save none/f.safetensors",
    "runtime execute p.pb --fetch loss=@none/f.npy",
    "runtime execute p.pb --metrics none/f.csv",
    "runtime execute p.pb --record none/f.json",
    "runtime execute p.pb --trace none/f.json",
    "runtime profile p.pb --trace none/f.json",
    "runtime sweep p.pb --set rate=1 --results none/f.jsonl",
    "runtime plot m.jsonl -o none/f.svg",
    "compiler compile p.pb -o none/f.pb",
    "compiler plan p.pb -o none/f.pb",
    "compiler freeze p.pb --states s.safetensors -o none/f.pb",
    "compiler draw p.pb -o none/f.svg",
    "compiler show p.pb --html none/f.html",
    "compiler show p.pb --svg none/f.svg",
    "compiler data pack x.npy -o none/f.safetensors",
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("command", MISSING)
def test_a_folder_that_is_missing_is_named_and_not_made(command: str, folder: Path, capsys):
    name = next(word.partition("@")[2] or word for word in command.split() if "none/" in word)
    assert asked(capsys, command) == (2, "", f"{command.split()[0]}: {name}: there is no such folder\n")
    assert not Path("none").exists()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("nbytes", [0, 64, 4096, 20000])
def test_a_full_disk_while_an_array_is_written_is_a_limit(engine: str, nbytes: int, folder: Path):
    words = ["execute", "wide.pb", "--engine", engine, "--feed", "x=@x.npy", "-q", "--fetch", "y=@y.npy"]
    done = subprocess.run(
        [sys.executable, "-m", "runtime", *words],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # what Python keeps would be cut too
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes)),
    )
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.endswith("\nruntime: y.npy: the file cannot be written: File too large\n")
    assert not [*folder.glob("y.npy")]
    assert not [*folder.glob(".prograd-*")]


def test_python_refuses_the_same_names(folder: Path):
    run = prograd.load("p.pb")
    with pytest.raises(prograd.UsageError) as caught:
        run.save("s.pt")
    assert str(caught.value) == "s.pt: states are written as .safetensors files; write s.safetensors"
    with pytest.raises(prograd.ProgramError) as refused:
        Program.load("p.pb").compile(batch=4).save("q.onnx")
    assert str(refused.value) == "q.onnx: programs are written as .pb files; write q.pb"


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("option", ["--save none/s.safetensors", "--metrics none/m.csv", "--record none/r.json"])
def test_neither_engine_makes_a_folder_for_a_file(option: str, engine: str, folder: Path, capsys):
    name = option.split()[1]
    before = sorted(folder.rglob("*"))
    command = f"runtime execute p.pb -q --engine {engine} {option} --checkpoint ck"
    assert asked(capsys, command) == (2, "", f"runtime: {name}: there is no such folder\n")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_python_makes_no_folder_for_a_file_either(engine: str, folder: Path):
    run = prograd.load("wide.pb", engine=engine)
    compiled = Program.load("wide.pb").compile()
    before = sorted(folder.rglob("*"))
    with pytest.raises(prograd.DataError) as caught:
        run.save("none/s.safetensors")
    assert str(caught.value) == "none/s.safetensors: the file cannot be written: No such file or directory"
    with pytest.raises(prograd.ProgramError) as refused:
        compiled.save("none/q.pb")
    assert str(refused.value) == "none/q.pb: the file cannot be written: No such file or directory"
    assert sorted(folder.rglob("*")) == before
