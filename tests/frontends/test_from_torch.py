"""from_torch: names, losses, optimizers, dropout, layouts, and what it says of a module that it cannot import."""

import contextlib
import gc
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import prograd
from compiler import CompileError
from frontends.by_hand import require_same_steps
from prograd import Run, adam, from_torch, ops
from prograd_proto import type_of


class Images(nn.Module):
    """Convolution, normalisation, dropout, and a matrix of all channels and pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4 * 8 * 8, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(image)))
        return self.head(self.drop(x).flatten(1))


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def test_states_have_the_names_of_the_module_and_axes_of_prograd(images: torch.Tensor):
    program = from_torch(Images(), {"image": images}, batch="batch")
    shapes = {state.name: type_of(state).shape for state in program.states.values() if state.imported.names}
    assert shapes["conv.weight"] == (3, 3, 3, 4)
    assert shapes["head.weight"] == (256, 5)
    assert set(shapes) == {*dict(Images().named_parameters()), "norm.running_mean", "norm.running_var"}


def test_images_may_have_channels_last(images: torch.Tensor):
    module = Images().eval()
    run = Run(from_torch(module, {"image": images}, batch="batch", layout="prograd").compile(batch=6))
    found = run.predict(images.permute(0, 2, 3, 1).numpy())["output"]
    np.testing.assert_allclose(found, module(images).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_dropout_drops_in_training_and_not_in_predictions(images: torch.Tensor):
    module = Images()
    program = from_torch(module, {"image": images}, batch="batch", seed=1)
    program.fetch("trained", ops.sum(program["output"]))
    program.minimize(ops.mean(program["output"]), adam(0.0))
    run = Run(program.compile(batch=6))
    first, second = (run.step({"image": images.numpy()})["trained"] for _ in range(2))
    assert first != second


def test_weights_go_back_to_the_module(images: torch.Tensor, tmp_path: Path):
    program = from_torch(Images(), {"image": images}, batch="batch")
    label = program.input("label", "int64", ("batch",))
    program.minimize(ops.softmax_cross_entropy(program["output"], label), adam(1e-2))
    run = Run(program.compile(batch=6))
    for _ in range(3):
        run.step({"image": images.numpy(), "label": np.arange(6) % 5})
    run.save(tmp_path / "trained.safetensors", layout="torch")
    module = Images()
    module.load_state_dict(load_file(tmp_path / "trained.safetensors"))
    wanted = module.eval()(images).detach().numpy()
    np.testing.assert_allclose(run.predict(images.numpy())["output"], wanted, rtol=1e-5, atol=1e-5)


def test_a_state_dict_is_read_by_the_names_and_axes_of_the_module(images: torch.Tensor, tmp_path: Path):
    run = Run(from_torch(Images(), {"image": images}, batch="batch").compile(batch=6))
    other = Images().eval()
    save_file(other.state_dict(), tmp_path / "other.safetensors")
    assert run.load(tmp_path / "other.safetensors", layout="torch").left == []
    np.testing.assert_allclose(
        run.predict(images.numpy())["output"], other(images).detach().numpy(), rtol=1e-5, atol=1e-6
    )


class Masked(nn.Module):
    """A layer with buffers of truth values and integers, which the program computes with while it is imported."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("mask", torch.ones(4, 4).tril().bool())
        self.register_buffer("order", torch.tensor([2, 0, 1, 3]))
        self.register_buffer("passing", torch.arange(4), persistent=False)
        self.register_buffer("large", torch.arange(20_000.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)[:, self.order].masked_fill(~self.mask, 0.0) + self.passing + self.large[self.order]


def test_buffers_of_integers_and_truth_values_go_to_the_module_and_back(tmp_path: Path):
    module, x = Masked(), torch.randn(4, 4)
    run = Run(from_torch(module, {"x": x}).compile())
    run.save(tmp_path / "a.safetensors", layout="torch")
    assert str(module.load_state_dict(load_file(tmp_path / "a.safetensors"))) == "<All keys matched successfully>"
    save_file(Masked().state_dict(), tmp_path / "b.safetensors")
    assert run.load(tmp_path / "b.safetensors", layout="torch").left == []
    module.order.fill_(0)
    save_file(module.state_dict(), tmp_path / "c.safetensors")
    before = run.states.sha256()
    with pytest.raises(prograd.DataError) as caught:
        run.load(tmp_path / "c.safetensors", layout="torch")
    assert run.states.sha256() == before
    assert str(caught.value) == (
        f"{tmp_path / 'c.safetensors'}: the tensor 'order' has other elements than the module had when it was "
        "imported, and the program was computed with those; import the module again with these elements"
    )


def test_saving_writes_the_initial_values_beside_the_program(images: torch.Tensor, tmp_path: Path):
    module = Images().eval()
    from_torch(module, {"image": images}, batch="batch").compile(batch=6).save(tmp_path / "net.pb")
    assert {path.name for path in tmp_path.iterdir()} == {"net.pb", "images.weights.safetensors"}
    found = prograd.load(tmp_path / "net.pb").predict(images.numpy())["output"]
    np.testing.assert_allclose(found, module(images).detach().numpy(), rtol=1e-5, atol=1e-6)


def two_layers() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


LOSSES = {
    "labels": (
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]), label_smoothing=0.1),
        torch.tensor([0, 2, 1, 1]),
    ),
    "numbers": (nn.HuberLoss(delta=0.5), torch.linspace(-1, 1, 12).reshape(4, 3)),
    "truths": (nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0])), torch.eye(4, 3)),
}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.99), weight_decay=0.1),
        lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.9, momentum=0.5),
    ],
)
def test_five_steps_end_at_the_states_of_pytorch(kind: str, optimizer):
    loss, target = LOSSES[kind]
    module, x = two_layers(), torch.randn(4, 4, generator=torch.Generator().manual_seed(3))
    biases = [p for p in module.parameters() if p.ndim == 1]
    weights = [p for p in module.parameters() if p.ndim > 1]
    theirs = optimizer([{"params": weights}, {"params": biases, "weight_decay": 0.0, "lr": 0.02}])
    program = from_torch(module, {"input": x}, batch="batch", loss=loss, optimizer=theirs)
    run = Run(program.compile(batch=4))
    require_same_steps(run, module, loss, theirs, x, target, rtol_of_loss=1e-5, rtol=1e-4, atol=1e-6)


class Lacking(nn.Module):
    """Two operators that prograd lacks, one of them twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eig(x)[0].real + torch.linalg.eig(x + 1)[0].real + torch.mode(x)[0]


def test_all_operators_without_counterpart_are_named_at_once():
    with pytest.raises(CompileError) as error:
        from_torch(Lacking(), {"x": torch.randn(4, 4)})
    text = str(error.value)
    assert "aten.linalg_eig.default, used 2 times, first in the module at test_from_torch.py:" in text
    assert "aten.mode.default, used 1 time, first in the module at test_from_torch.py:" in text


def test_a_table_explains_what_cannot_be_imported():
    table = from_torch(Lacking(), {"x": torch.randn(4, 4)}, explain=True)
    operator, reason, *others = table.rows[0][:4]
    assert (operator, others) == ("aten.linalg_eig.default", [2, ""])
    assert reason.startswith("has no counterpart; for symmetric matrices use torch.linalg.eigh")
    assert str(table).splitlines()[0].split() == ["operator", "uses", "first", "in", "at", "why"]
    assert str(from_torch(two_layers(), {"input": torch.zeros(2, 4)}, explain=True)) == "everything can be imported"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"module": 3}, "from_torch: 3 is neither a torch.nn.Module nor an exported program"),
        ({"inputs": {}}, "from_torch: inputs={} is not a mapping of names to example tensors, as {'x': x}"),
        ({"inputs": {"input": 3}}, "from_torch: none of the inputs input is a tensor of PyTorch"),
        (
            {"inputs": {"input": [object()]}},
            "from_torch: the input 'input_0' is object; inputs are tensors of PyTorch, lists and mappings of these, "
            "and numbers and flags, which the program keeps",
        ),
        ({"layout": "NCHW"}, "from_torch: layout='NCHW' is neither 'torch' nor 'prograd'"),
        ({"loss": nn.MSELoss()}, "from_torch: loss= is minimized by optimizer=; give both, or build the loss with ops"),
        (
            {"inputs": {"input": torch.zeros(1, 4)}, "batch": "batch"},
            "from_torch: axis 0 of the example 'input' has 1 elements; the symbol 'batch' needs an example with 2 or "
            "more",
        ),
        (
            {"symbols": {"image": {0: "n"}}},
            "from_torch: symbols names the input 'image', which is not among ['input']",
        ),
    ],
)
def test_wrong_arguments_get_one_sentence(arguments: dict, message: str):
    with pytest.raises(CompileError) as error:
        from_torch(**({"module": two_layers(), "inputs": {"input": torch.zeros(2, 4)}} | arguments))
    assert str(error.value) == message


class Asks(nn.Module):
    """A module whose control flow depends on data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class Differentiates(nn.Module):
    """Differentiates row by row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(torch.func.grad(lambda row: row.sin().sum()))(x)


class Aligned(nn.Module):
    """A loss by lengths that are tensors."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lengths = torch.full((x.shape[0],), 2)
        return nn.functional.ctc_loss(x.transpose(0, 1), torch.ones(2, 2).long(), lengths + 4, lengths)


class KeyCache:
    """An object that is no tensor."""


class Caches(nn.Module):
    """Returns more than tensors."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, KeyCache]:
        return x + 1, KeyCache()


@pytest.mark.parametrize(
    ("module", "example", "message"),
    [
        (Asks(), torch.zeros(2, 4), "torch.export cannot export Asks: "),
        (nn.Linear(4, 3), torch.zeros(2, 5), "torch.export cannot export Linear: "),
        (
            nn.BatchNorm1d(4, momentum=None),
            torch.zeros(2, 4),
            "BatchNorm1d has momentum=None, which torch.export cannot export; give it a number",
        ),
        (
            Differentiates(),
            torch.zeros(2, 4),
            "torch.export cannot export Differentiates: forward calls a transform of torch.func, as grad or vmap of "
            "it, which is not traced (",
        ),
        (
            Aligned(),
            torch.zeros(2, 6, 4),
            "torch.export cannot export Aligned: aten._ctc_loss.Tensor has no counterpart; leave the loss out of "
            "forward, and build it from the module's result with ops.ctc_loss (at test_from_torch.py:",
        ),
        (
            Caches(),
            torch.zeros(2, 4),
            "torch.export cannot export Caches: its result has a KeyCache, which is no tensor; leave it out, as by "
            "module.config.use_cache = False",
        ),
    ],
    ids=["data", "shape", "momentum", "transform", "ctc", "cache"],
)
def test_a_module_that_cannot_be_imported_gets_one_sentence(module: nn.Module, example: torch.Tensor, message: str):
    with pytest.raises(CompileError) as error:
        from_torch(module, {"input": example})
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


class Tied(nn.Module):
    """A table that is also the matrix of logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.words(tokens))


def test_tied_weights_are_one_state_that_is_written_under_both_names(tmp_path: Path):
    program = from_torch(Tied(), {"tokens": torch.zeros(2, 3, dtype=torch.int64)}, batch="batch")
    assert [name for name, state in program.states.items() if state.imported.names] == ["words.weight"]
    Run(program.compile(batch=2)).save(tmp_path / "tied.safetensors", layout="torch")
    assert set(load_file(tmp_path / "tied.safetensors")) == {"words.weight", "head.weight"}


def test_two_axes_may_have_symbols():
    module = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    program = from_torch(module, {"src": torch.zeros(2, 5, 8)}, batch="batch", symbols={"src": {1: "length"}})
    assert program["output"].shape == ("batch", "length", 8)
    x = torch.randn(3, 7, 8)
    found = Run(program.compile(batch=3, length=7)).predict(x.numpy())["output"]
    np.testing.assert_allclose(found, module.train()(x).detach().numpy(), rtol=1e-4, atol=1e-5)


class Flagged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 8)

    def forward(
        self, x: torch.Tensor, doubles: bool = False, scale: float = 1.0, more: Any = (), named: Any = None
    ) -> torch.Tensor:
        y = self.linear(x) * (2 if doubles else 1) * scale
        return y + sum(more) + (0 if named is None else named["a"] * named["b"])


@pytest.mark.parametrize("batch", [None, "batch"])
def test_flags_and_numbers_are_kept_and_tensors_of_lists_are_inputs(batch: str | None):
    torch.manual_seed(0)
    x, y, z = torch.randn(32, 64), torch.randn(32, 8), torch.randn(32, 8)
    module = Flagged()
    given = {"x": x, "more": [y, z], "doubles": True, "scale": 3, "named": {"a": y, "b": z}}
    program = from_torch(module, given, batch=batch)
    feeds = {"x": x, "more_0": y, "more_1": z, "named_a": y, "named_b": z}
    feeds |= {"named_a": x[:, :8], "named_b": x[:, 8:16]}  # the examples are the same tensors as others
    run = Run(program.compile(**({"batch": 32} if batch else {})))
    found = run.predict({name: tensor.numpy() for name, tensor in feeds.items()})["output"]
    given["named"] = {"a": x[:, :8], "b": x[:, 8:16]}
    np.testing.assert_allclose(found, module(**given).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_the_collector_of_cycles_runs_again_after_an_import():
    for enable, module in (
        (gc.enable, nn.Linear(64, 8)),
        (gc.disable, nn.Linear(64, 8)),
        (gc.enable, Caches()),
    ):
        enable()
        try:
            was_enabled = gc.isenabled()
            with contextlib.suppress(CompileError):
                from_torch(module, {next(iter(inspect.signature(module.forward).parameters)): torch.randn(32, 64)})
            assert gc.isenabled() == was_enabled
        finally:
            gc.enable()
