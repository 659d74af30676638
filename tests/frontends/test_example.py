"""The example and the notebook of a network that is begun in PyTorch, trained without it, and given back."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import prograd
from frontends.torchvision_without_operators import torchvision
from prograd import data, ops, sgd

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    torchvision()
    return tmp_path


def test_the_example_trains_a_network_that_pytorch_takes_back(here: Path, capsys: pytest.CaptureFixture[str]):
    example = runpy.run_path(str(EXAMPLES / "from_pytorch.py"))
    example["main"](here)  # it asserts that probabilities agree to 1e-5
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert float(first.removeprefix("accuracy of PyTorch with the trained weights: ")) > 0.9
    assert float(second.removeprefix("largest difference of a probability: ")) < 1e-5
    assert {path.name for path in here.iterdir()} >= {"from_pytorch.pb", "trained.safetensors"}


@pytest.mark.thorough
def test_the_cells_of_the_notebook_run_in_their_order(here: Path):
    notebook = json.loads((EXAMPLES / "notebooks/from_pytorch.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    (here / "notebook.py").write_text("\n".join("".join(cell["source"]) for cell in cells), encoding="utf-8")
    names = runpy.run_path("notebook.py")
    assert names["accuracy"] > 0.9
    assert names["difference"] < 1e-5


@pytest.mark.parametrize("momentum", [0.01, 0.1])
def test_running_statistics_follow_the_momentum_of_the_module(here: Path, momentum: float):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4, momentum=momentum), torch.nn.ReLU())
    module.append(torch.nn.Flatten()).append(torch.nn.Linear(4 * 6 * 6, 10)).train()
    data.sample("digits", "digits.safetensors")
    rows = load_file("digits.safetensors")
    images, labels = rows["image"].float().permute(0, 3, 1, 2), rows["label"]
    program = prograd.from_torch(module, {"image": images[:2]}, batch="batch")
    label = program.input("label", "int64", ("batch",))
    program.minimize(ops.softmax_cross_entropy(program["output"], label), sgd(0.01))
    run = prograd.Run(program.compile(batch=32))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for start in range(0, 320, 32):
        x, y = images[start : start + 32], labels[start : start + 32]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
        run.step({"image": x.numpy(), "label": y.numpy()})
    for name in ("1.running_mean", "1.running_var"):
        np.testing.assert_allclose(run.state[name], module.state_dict()[name].numpy(), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        theirs = module.eval()(images[:64]).numpy()
    np.testing.assert_allclose(run.predict(images[:64].numpy())["output"], theirs, rtol=1e-3, atol=1e-4)
