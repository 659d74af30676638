"""Files that PyTorch's exporters write: outputs, gradients, steps of training, and the three warnings.

pytest -q -n 0 tests/frontends/test_exported_to_onnx.py
"""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason='needs ONNX: pip install ".[onnx]"')
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

import torch

import prograd
from frontends.exported_to_onnx import NETWORKS, NORMS, exported, made, of_any_batch
from prograd import ops

EXPORTS = [
    (name, exporter, opset) for name in NETWORKS for exporter in ("script", "dynamo") for opset in (13, 17, 18, 21)
]
REFUSED = {("encoder", "script", 13)}
"""Exports that PyTorch itself refuses."""


def fed(program: Any, inputs: Any) -> dict[str, Any]:
    names = prograd.Run(program.compile()).entries["predict"].feeds
    return dict(zip(names, (x.numpy() for x in inputs), strict=True))


@pytest.mark.parametrize(("name", "exporter", "opset"), EXPORTS)
def test_an_export_predicts_what_the_module_predicts(name: str, exporter: str, opset: int):
    network, inputs = made(name)
    try:
        model = exported(network, inputs, exporter, opset)
    except Exception as error:
        if (name, exporter, opset) in REFUSED or "nsupported" in str(error):
            pytest.skip(f"PyTorch does not export it: {str(error)[:80]}")
        raise
    program = prograd.from_onnx(model, name="net")
    found = prograd.Run(program.compile(), engine="native").step(fed(program, inputs), entry="predict")
    wanted = network(*inputs).detach().numpy()
    result = np.asarray(found[program.outputs_of_module[0]])
    assert np.max(np.abs(result - wanted) / (1 + np.abs(wanted))) < 1e-5


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_export_of_any_batch_predicts_for_other_batches(name: str, exporter: str):
    network, inputs = made(name)
    program = prograd.from_onnx(exported(network, inputs, exporter, 18, **of_any_batch(exporter, inputs)), name="net")
    for batch in (3, 7):
        rows = tuple(torch.cat([x, x])[:batch] for x in inputs)
        run = prograd.Run(program.compile(batch=batch), engine="native")
        feeds = dict(zip(run.entries["predict"].feeds, (x.numpy() for x in rows), strict=True))
        result = np.asarray(run.step(feeds, entry="predict")[program.outputs_of_module[0]])
        wanted = network(*rows).detach().numpy()
        assert np.max(np.abs(result - wanted) / (1 + np.abs(wanted))) < 1e-5


@pytest.mark.parametrize("name", [*NETWORKS, *NORMS])
def test_gradients_of_an_export_that_is_not_optimized_are_those_of_the_module(name: str):
    network, inputs = made(name)
    program = prograd.from_onnx(exported(network, inputs, "dynamo", 18, optimize=False), name="net")
    names = {t.name for t in program.tensors_of_file if t.trained}
    assert names == {key for key, _ in network.named_parameters()}
    loss = ops.mean(ops.square(program[program.outputs_of_module[0]]))
    program.minimize(loss, prograd.sgd(1.0))
    if name in ("cnn", "mobile", "tabular"):
        network.train()
    torch.mean(torch.square(network(*inputs))).backward()
    run = prograd.Run(program.compile(), engine="native")
    before = {key: np.array(run.state[key]) for key, _ in network.named_parameters()}
    run.step(fed_training(run, inputs))
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None
        wanted = parameter.grad.numpy()
        found = before[key] - np.array(run.state[key])
        size = max(float(np.max(np.abs(wanted))), 1e-2)
        assert np.max(np.abs(found - wanted)) / size < 1e-4, key


@pytest.mark.parametrize(
    ("name", "exporter", "opset", "more"),
    [
        ("norms", "dynamo", 18, 3 * 8 + 8 - 6),  # the token of each row, the kept part of positions, a length that went
        ("unet", "dynamo", 18, 0),
        ("unet", "dynamo", 21, 0),
        ("unet", "script", 17, 0),
    ],
)
def test_constants_of_a_normalisation_are_no_parameters(name: str, exporter: str, opset: int, more: int):
    network, inputs = made(name)
    tensors = prograd.from_onnx(exported(network, inputs, exporter, opset), name="net").tensors_of_file
    count = sum(int(np.prod(t.shape)) for t in tensors if t.trained)
    assert count == sum(parameter.numel() for parameter in network.parameters()) + more, tensors


def fed_training(run: Any, inputs: Any) -> dict[str, Any]:
    return dict(zip(run.entries["train"].feeds, (x.numpy() for x in inputs), strict=True))


@pytest.mark.parametrize("name", ["cnn", "encoder"])
def test_a_hundred_steps_of_training_are_those_of_the_module(name: str):
    network, inputs = made(name)
    program = prograd.from_onnx(exported(network, inputs, "dynamo", 18, optimize=False), name="net")
    program.minimize(ops.mean(ops.square(program[program.outputs_of_module[0]])), prograd.sgd(0.01))
    run = prograd.Run(program.compile(), engine="native")
    network.train()
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    feeds = fed_training(run, inputs)
    for _ in range(100):
        run.step(feeds)
        optimizer.zero_grad()
        torch.mean(torch.square(network(*inputs))).backward()
        optimizer.step()
    for key, parameter in network.named_parameters():
        np.testing.assert_allclose(run.state[key], parameter.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_folded_batch_normalisation_is_told():
    for exporter in ("script", "dynamo"):
        network, inputs = made("cnn")
        notes = prograd.from_onnx(exported(network, inputs, exporter, 18), name="net").notes_of_import
        assert any(
            note.startswith("the exporter folded batch normalisation into 2 convolutions") and "optimize=False" in note
            for note in notes
        ), notes


def test_merged_parameters_are_told_and_untied():
    network, inputs = made("encoder", perturbed=False)
    model = exported(network, inputs, "script", 18)
    program = prograd.from_onnx(model, name="net")
    assert any("merged" in note and "--untie" in note for note in program.notes_of_import)
    whole = sum(parameter.numel() for parameter in network.parameters())
    untied = prograd.from_onnx(model, name="net", untie=True)
    counted = [sum(int(np.prod(t.shape)) for t in p.tensors_of_file if t.trained) for p in (program, untied)]
    assert counted[0] < whole == counted[1]
    assert not any("merged" in note for note in untied.notes_of_import)


def test_a_tied_matrix_that_was_copied_is_told_and_tied():
    network, inputs = made("gpt")
    model = exported(network, inputs, "script", 18)
    program = prograd.from_onnx(model, name="net")
    assert any("is the transposed copy of" in note and "--tie" in note for note in program.notes_of_import)
    tied = prograd.from_onnx(model, name="net", tie=True)
    assert not any("transposed copy" in note for note in tied.notes_of_import)
    assert len(tied.tensors_of_file) == len(program.tensors_of_file) - 1
    found = prograd.Run(tied.compile()).step(fed(tied, inputs), entry="predict")[tied.outputs_of_module[0]]
    np.testing.assert_allclose(found, network(*inputs).detach().numpy(), rtol=1e-4, atol=1e-5)
