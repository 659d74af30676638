"""The command `compiler import torch`."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install -e ".[test,frontends]"')

import prograd  # noqa: E402
from compiler.__main__ import main  # noqa: E402

NETS = """
import torch

def make():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))

def fails():
    raise KeyError("depth")
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
        (["missing.pt2", "-o", "n.pb"], "missing.pt2: no such file"),
        (["cut.pt2", "-o", "n.pb"], "cut.pt2: PyTorch cannot read this file: "),
        (["nets_of_this_test:make", "--input", "x=float32[4]"], "-o FILE names the program to write"),
    ],
)
def test_wrong_sources_get_one_sentence(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
):
    Path("cut.pt2").write_bytes(b"PK\x03\x04 and nothing else")
    assert main(["import", "torch", *arguments]) != 0
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
