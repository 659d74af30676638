"""The command `compiler import torch`."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import prograd
from compiler.__main__ import main

NETS = """
import sys
import torch

def make():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))

def fails():
    raise KeyError("depth")

def ends():
    raise SystemExit(0)

class Prints(torch.nn.Module):
    def forward(self, x):
        print("text of forward", file=sys.stderr)
        return x * 2

class Branches(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets_of_this_test.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make() -> torch.nn.Module:
    names: dict = {}
    exec(NETS, names)
    return names["make"]()


def test_a_function_that_makes_a_module_becomes_a_program(folder: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["import", "torch", "nets_of_this_test:make", "--input", "input=float32[batch,4]", "-o", "net.pb"]
    assert main(arguments) == 0
    told = capsys.readouterr()
    assert told.out.startswith("OK states=4 program_sha256=")
    assert "note: nets_of_this_test:make is imported and called, which runs its code" in told.err
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    wanted = make()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(prograd.load("net.pb").predict(x)["output"], wanted, rtol=1e-5, atol=1e-6)


def test_a_file_of_an_export_becomes_a_program(folder: Path, capsys: pytest.CaptureFixture[str]):
    x = torch.randn(3, 4)
    torch.export.save(torch.export.export(make(), (x,)), "net.pt2")
    assert main(["import", "torch", "net.pt2", "-o", "net.pb"]) == 0
    assert "note: PyTorch reads net.pt2, and such a file may run code" in capsys.readouterr().err
    wanted = make()(x).detach().numpy()
    np.testing.assert_allclose(prograd.load("net.pb").predict(x.numpy())["output"], wanted, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_imported_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["import", "torch", "nets_of_this_test:make", "--input", "input=float32[batch,4]", "--explain"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "everything can be imported\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nets_of_this_test:make", "-o", "n.pb"], "--input names the inputs of the module"),
        (
            ["nets_of_this_test:make", "--input", "x=float32", "-o", "n.pb"],
            "--input x=float32: write NAME",
        ),
        (["nets", "--input", "x=float32[4]", "-o", "n.pb"], "'nets' is neither module:function nor a .pt2 file"),
        (
            ["nets_of_this_test:fails", "--input", "x=float32[4]", "-o", "n.pb"],
            ":fails: KeyError: 'depth'",
        ),
        (
            ["nets_of_this_test:ends", "--input", "x=float32[4]", "-o", "n.pb"],
            "nets_of_this_test:ends: its code calls sys.exit, and makes no module",
        ),
        (
            ["nets_of_this_test:nothing", "--input", "x=float32[4]", "-o", "n.pb"],
            "nets_of_this_test:nothing: the module nets_of_this_test has no function 'nothing'",
        ),
        (
            ["no_package.nets:make", "--input", "x=float32[4]", "-o", "n.pb"],
            "there is no module no_package in this folder or among the installed packages",
        ),
        (
            ["folder/nets.py:make", "--input", "x=float32[4]", "-o", "n.pb"],
            "'folder/nets.py:make' is neither module:function nor a .pt2 file; write mypackage.nets:make",
        ),
        (
            ["nets_of_this_test:Branches", "--input", "x=float32[4]", "-o", "n.pb"],
            "cannot export Branches: its Python code needs an element of a tensor, as in `if x.sum() > 0`; use "
            "torch.where or torch.cond (at nets_of_this_test.py:22)",
        ),
        (["missing.pt2", "-o", "n.pb"], "missing.pt2: no such file"),
        (["cut.pt2", "-o", "n.pb"], "cut.pt2: the file is cut, or it is no file of torch.export.save; write it again"),
        (["empty.pt2", "-o", "n.pb"], "empty.pt2: the file is empty; write it again by torch.export.save"),
        (["folder.pt2", "-o", "n.pb"], "folder.pt2: this is a folder; name a file of torch.export.save"),
        (["nets_of_this_test:make", "--input", "x=float32[4]"], "-o FILE names the program to write"),
    ],
)
def test_wrong_sources_get_one_sentence(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
):
    Path("cut.pt2").write_bytes(b"PK\x03\x04 and nothing else")
    Path("empty.pt2").touch()
    Path("folder.pt2").mkdir()
    assert main(["import", "torch", *arguments]) != 0
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert not list(Path().glob("n.*"))


def rewritten(source: str, target: str, change: Callable[[str, bytes], bytes], method: int = zipfile.ZIP_STORED):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", method) as new:
        for part in old.infolist():
            new.writestr(part.filename, change(part.filename, old.read(part)))


def test_damaged_archives_get_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]):
    torch.export.save(torch.export.export(make(), (torch.randn(3, 4),)), "net.pt2")
    graph = "models/model.json"
    rewritten("net.pt2", "list.pt2", lambda name, data: b"[]" if name.endswith(graph) else data)
    rewritten("net.pt2", "text.pt2", lambda name, data: b"{wrong" if name.endswith(graph) else data)
    rewritten("net.pt2", "short.pt2", lambda name, data: data[:5] if name.endswith("weight_0") else data)
    wide = 2**20 * b" "
    rewritten("net.pt2", "bomb.pt2", lambda name, data: data + wide, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile("other.pt2", "w") as other:
        other.writestr("../../outside.txt", "text")
    reads = f"PyTorch {torch.__version__} cannot read this file"
    for name, message in {
        "list": f"{reads}: it lacks parts that torch.export.save writes; write it again by torch.export.save",
        "other": f"{reads}: it lacks parts that torch.export.save writes; write it again by torch.export.save",
        "text": f"{reads}: Expecting property name",
        "short": f"{reads}: Record data/weights/weight_0",
        "bomb": "its parts unpack to ",
    }.items():
        assert main(["import", "torch", f"{name}.pt2", "-o", "n.pb"]) == 3
        told = capsys.readouterr().err
        assert f"compiler: {name}.pt2: {message}" in told
        assert "Traceback" not in told
    assert not list(Path().glob("n.*"))
    assert not list(folder.parent.rglob("outside.txt"))


def test_programs_in_one_folder_have_weights_of_their_own(folder: Path):
    torch.export.save(torch.export.export(make(), (torch.randn(3, 4),)), "net.pt2")
    for name in "ab":
        assert main(["import", "torch", "net.pt2", "-o", f"{name}.pb"]) == 0
    assert {path.name for path in folder.glob("*.safetensors")} == {"a.weights.safetensors", "b.weights.safetensors"}


def test_forward_may_print(folder: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["import", "torch", "nets_of_this_test:Prints", "--input", "x=float32[4]", "-o", "net.pb"]
    assert main(arguments) == 0
    assert capsys.readouterr().err.count("text of forward\n") == 1


def test_graphs_that_pytorch_prints_beside_an_error_are_left_out(folder: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["import", "torch", "nets_of_this_test:Branches", "--input", "x=float32[4]", "-o", "net.pb"]
    assert main(arguments) == 3
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == ["note", "compiler"]
