"""Thirty more mistakes of new users, with runs, files and servers: every answer names what to do."""

# ruff: noqa: E501 - sentences are tables to be read

from __future__ import annotations

import shlex
import socket
from pathlib import Path

import numpy as np
import pytest

import prograd
from compiler.__main__ import main as compiler
from prograd import Program, layers, ops, sgd
from prograd.__main__ import main as both
from runtime.__main__ import main as runtime

COMMANDS = {"runtime": runtime, "compiler": compiler, "prograd": both}


def build(name: str, width: int) -> None:
    program = Program(name, seed=1)
    x, y = program.input("x", "float32", ("rows", 4)), program.input("y", "int64", ("rows",))
    scores = layers.dense(ops.relu(layers.dense(x, "hidden", width)), "out", 3)
    program.minimize(ops.softmax_cross_entropy(scores, y), sgd(0.1))
    program.metrics(accuracy=ops.accuracy(scores, y))
    program.outputs(p=ops.softmax(scores))
    program.data("rows.npz", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=2, evaluate="test")
    program.compile(rows=8).save(f"{name}.pb")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        rows = {"x": np.zeros((40, 4), np.float32), "y": np.arange(40) % 3}
        np.savez("rows.npz", **rows, train=np.arange(32), test=np.arange(32, 40))
        build("flowers", 16)
        build("other", 8)
        run = prograd.load("flowers.pb")
        run.train(checkpoint="ck", epochs=1, progress=False)
        run.save("w.safetensors")
        for suffix in ("pt", "pth", "bin", "ckpt"):
            Path(f"x.{suffix}").write_bytes(b"PK\3\4")
        Path("rows.xlsx").write_bytes(b"PK\3\4")
    return folder


PICKLE = (
    "x.{0}: PyTorch's own files are pickles, which may run code and are never read; write the weights alone by "
    "safetensors.torch.save_file(torch.load('x.{0}', weights_only=True){1}, 'x.safetensors'), and load x.safetensors with layout torch"
)

MISTAKES = [
    ("runtime execute flower.pb", 3, "flower.pb: no such file; did you mean 'flowers.pb'?"),
    ("runtime execute", 2, "the following arguments are required: program; see runtime execute --help"),
    ("runtime train flowers.pb", 2, "there is no verb 'train'; write execute; see runtime --help"),
    ("prograd predict flowers.pb", 2, "there is no verb 'predict'; write execute --entry predict; see prograd --help"),
    ("prograd convert net.onnx", 2, "there is no verb 'convert'; write import onnx; see prograd --help"),
    ("compiler train flowers.pb", 2, None),
    ("runtime exec flowers.pb", 2, "there is no verb 'exec'; did you mean 'execute'?; see runtime --help"),
    (
        "runtime execute flowers.pb --epoch 3",
        2,
        "there is no option '--epoch'; did you mean '--epochs'?; see runtime execute --help",
    ),
    (
        "runtime execute flowers.pb --epochs three",
        2,
        "argument --epochs: 'three' is not a whole number from 1 on, of at most 18 digits; see runtime execute --help",
    ),
    (
        "runtime execute flowers.pb --steps 5 --epochs 1",
        2,
        "--steps and --epochs both say how long to train; give one of them",
    ),
    ("runtime execute flowers.pb --resume", 2, "--resume goes on from --checkpoint DIR or --load FILE"),
    (
        "runtime execute flowers.pb --checkpoint ck",
        2,
        "ck: there are checkpoints already; --resume continues them, --force starts over",
    ),
    ("runtime execute flowers.pb --every 5", 2, "--every says how often to write checkpoints; give --checkpoint"),
    (
        "runtime execute flowers.pb --load w.safetensors --entry predict --steps 3",
        2,
        "--steps belongs to training, and the entry 'predict' does not train",
    ),
    ("runtime execute other.pb --entry evaluate --load w.safetensors", 4, None),
    *(
        (
            f"runtime execute flowers.pb --entry predict --load x.{suffix}",
            4,
            PICKLE.format(suffix, "['state_dict']" if suffix == "ckpt" else ""),
        )
        for suffix in ("pt", "pth", "bin", "ckpt")
    ),
    (
        "runtime execute flowers.pb --entry predict --data rows.xlsx",
        4,
        "rows.xlsx: this is a spreadsheet; save the sheet with the rows as rows.csv",
    ),
    ("runtime execute flowers.pb --metrics m.txt", 2, "--metrics m.txt: the name ends in neither .csv nor .jsonl"),
    (
        "runtime execute flowers.pb --set rate=0.1",
        2,
        "the program has no setting 'rate'; it has no settings, which program.setting declares",
    ),
    (
        "runtime execute flowers.pb --fetch acuracy",
        2,
        "entry 'train' has no fetch and no tensor 'acuracy'; did you mean 'accuracy'?",
    ),
    ("runtime execute flowers.pb --split tset", 2, "the data has no split 'tset'; did you mean 'test'?"),
    (
        "runtime execute flowers.pb --max-memory lots",
        2,
        "argument --max-memory: 'lots' is not a size as 1.5MiB, 1GB or 1000000; see runtime execute --help",
    ),
    (
        "runtime serve flowers.pb --port 99999",
        2,
        "argument --port: '99999' is no port, a number from 0 to 65535; see runtime serve --help",
    ),
    (
        "runtime serve flowers.pb --entry train",
        2,
        "the entry 'train' trains, and no request may change the states; name another by --entry",
    ),
    (
        "runtime replay flowers.pb",
        2,
        "one of the arguments --record --expect-sha256 is required; see runtime replay --help",
    ),
    (
        "compiler summary w.safetensors",
        3,
        "w.safetensors: this is a safetensors file and no program; --load after the program takes states",
    ),
    (
        "compiler data pack flowers.pb -o a.safetensors",
        2,
        "flowers.pb: rows are packed from .csv, .tsv, .jsonl, .parquet, .npy, .npz and .txt files, and folders of images",
    ),
]


@pytest.mark.parametrize(("line", "code", "sentence"), MISTAKES, ids=[line for line, _, _ in MISTAKES])
def test_a_mistake_with_a_command(line: str, code: int, sentence: str | None, made: Path, monkeypatch, capsys):
    monkeypatch.chdir(made)
    before = sorted(path.name for path in made.iterdir())
    command, *words = shlex.split(line)
    try:
        found = COMMANDS[command](words)
    except SystemExit as stop:
        found = stop.code
    said = capsys.readouterr().err.splitlines()[-1]
    assert found == code, said
    assert said.startswith(f"{command}: ")
    if sentence is not None:
        assert said == f"{command}: {sentence}"
    assert sorted(path.name for path in made.iterdir()) == before


def test_a_port_that_is_in_use(made: Path, monkeypatch, capsys):
    monkeypatch.chdir(made)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert runtime(["serve", "flowers.pb", "--port", str(port)]) != 0
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"runtime: port {port} of 127.0.0.1 cannot be used: Address already in use; name another by --port"


def test_there_are_sixty_mistakes_with_those_of_data():
    assert len(MISTAKES) + 1 + 32 >= 60
