"""from_torch: submodules stay in the modes that the user chose, and predictions are those of evaluation."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from prograd import Run, from_torch, ops, sgd

ENGINES = ["reference", "native"]


def rows(count: int = 32, width: int = 64) -> Any:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(1)) * 2 + 1


@pytest.mark.parametrize("engine", ENGINES)
def test_layers_in_evaluation_stay_so_in_training(engine: str):
    torch.manual_seed(0)
    module = nn.Sequential(nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 8), nn.BatchNorm1d(8))
    module[0].eval()
    module[1].eval()
    x = rows()
    program = from_torch(module, {"input": x}, batch="n", loss=nn.MSELoss(), optimizer=torch.optim.SGD(
        module.parameters(), 0.1))  # fmt: skip
    assert [child.training for child in module] == [False, False, True, True]
    run = Run(program.compile(n=32), engine=engine)
    found = run.step({"input": x.numpy(), "target": np.zeros((32, 8), np.float32)})["loss"]
    np.testing.assert_allclose(found, module(x).square().mean().item(), rtol=1e-5)
    np.testing.assert_array_equal(run.state["0.running_mean"], np.zeros(64))
    np.testing.assert_allclose(run.state["3.running_mean"], module[3].running_mean, rtol=1e-4, atol=1e-6)


def test_a_module_in_evaluation_trains_as_it_is():
    module, x = nn.Sequential(nn.BatchNorm1d(64), nn.Dropout(0.5)).eval(), rows()
    program = from_torch(module, {"input": x})
    program.fetch("trained", program["output"])
    program.minimize(ops.mean(program["output"]), sgd(0.0))
    run = Run(program.compile())
    np.testing.assert_allclose(run.step({"input": x.numpy()})["trained"], module(x).detach(), rtol=1e-6)
    np.testing.assert_array_equal(run.state["0.running_mean"], np.zeros(64))


class Logits(nn.Module):
    """Logits in training, and probabilities in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 8)

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        return y if self.training else y.softmax(-1)


class Noise(Logits):
    """Noise in training alone."""

    def forward(self, x: Any) -> Any:
        mean, deviation = self.linear(x).chunk(2, 1)
        return mean + torch.randn_like(mean) * deviation.exp() if self.training else mean


class Normals(nn.Module):
    """Normal numbers around tensors, numbers, or both, with a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Any) -> Any:
        around = torch.normal(x, self.scale.abs()), torch.normal(x, 0.5), torch.normal(3.0, 1 + x * 0)
        return torch.stack(around) * self.scale


@pytest.mark.parametrize("engine", ENGINES)
def test_normal_numbers_around_tensors_have_their_moments_and_no_gradient(engine: str):
    module, x = Normals(), torch.arange(32.0)[:, None].expand(32, 256).contiguous()
    program = from_torch(module, {"x": x}, batch="n")
    [(_, gradient)] = program.minimize(ops.mean(program["output"]), sgd(0.0))
    program.fetch("drawn", program["output"])
    program.fetch("gradient", gradient)
    found = Run(program.compile(n=32), engine=engine).step({"x": x.numpy()})
    drawn = np.asarray(found["drawn"]) / 2
    np.testing.assert_allclose(drawn.mean(2), [np.arange(32), np.arange(32), [3.0] * 32], atol=0.6)
    np.testing.assert_allclose((drawn - drawn.mean(2, keepdims=True)).std((1, 2)), [2, 0.5, 1], rtol=0.05)
    np.testing.assert_allclose(found["gradient"], drawn.mean(), rtol=1e-5)


class Labels(Logits):
    """Logits in training, and labels, which have another type, in evaluation."""

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        return y if self.training else y.argmax(-1)


class Detector(Logits):
    """A loss in training, and scores in evaluation."""

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        return {"loss": y.square().mean()} if self.training else {"scores": y.sigmoid()[:, :2]}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [Logits, Noise, Labels])
@pytest.mark.parametrize("is_training", [True, False])
def test_predictions_are_those_of_evaluation(kind: Any, engine: str, is_training: bool):
    module, x = kind().train(is_training), rows()
    run = Run(from_torch(module, {"x": x}, batch="n").compile(n=32), engine=engine)
    found = run.predict(x.numpy())["output"]
    np.testing.assert_allclose(found, module.eval()(x).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_training_has_the_results_and_gradients_of_training(engine: str):
    module, x = Logits(), rows()
    program = from_torch(module, {"x": x}, batch="n")
    [(_, gradient), _] = program.minimize(ops.mean(ops.square(program["output"])), sgd(0.0))
    program.fetch("gradient", gradient)
    found = Run(program.compile(n=32), engine=engine).step({"x": x.numpy()})
    loss = module(x).square().mean()
    loss.backward()
    np.testing.assert_allclose(found["loss"], loss.item(), rtol=1e-5)
    np.testing.assert_allclose(found["gradient"].T, module.linear.weight.grad, rtol=1e-4, atol=1e-6)


def test_results_may_have_other_names_in_evaluation():
    module, x = Detector(), rows()
    program = from_torch(module, {"x": x}, optimizer=torch.optim.SGD(module.parameters(), 0.0))
    run = Run(program.compile())
    np.testing.assert_allclose(run.step({"x": x.numpy()})["loss"], module(x)["loss"].item(), rtol=1e-5)
    found = run.predict(x.numpy())
    assert list(found) == ["scores"]
    np.testing.assert_allclose(found["scores"], module.eval()(x)["scores"].detach(), rtol=1e-5)


def test_a_loss_is_evaluated_on_results_of_evaluation():
    module, x = Logits(), rows()
    program = from_torch(module, {"x": x}, loss=nn.MSELoss(), optimizer=torch.optim.SGD(module.parameters(), 0.0))
    feeds = {"x": x.numpy(), "target": np.zeros((32, 8), np.float32)}
    found = Run(program.compile()).step(feeds, entry="evaluate")["loss"]
    np.testing.assert_allclose(found, module.eval()(x).square().mean().item(), rtol=1e-5)


class Always(nn.Module):
    """Dropout that evaluation keeps, and a normalisation by the batch in both modes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(64))
        self.register_buffer("variance", torch.ones(64))

    def forward(self, x: Any) -> Any:
        y = nn.functional.batch_norm(x, self.mean.clone(), self.variance.clone(), training=True)
        return {"normal": y, "dropped": nn.functional.dropout(x, 0.25, training=True)}


def test_what_evaluation_draws_is_drawn_in_predictions():
    x = rows()
    found = Run(from_torch(Always(), {"x": x}).compile()).predict(x.numpy())
    kept = found["dropped"] != 0
    assert 0.7 < kept.mean() < 0.8
    np.testing.assert_allclose(found["dropped"][kept], (x.numpy() / 0.75)[kept], rtol=1e-6)
    np.testing.assert_allclose(found["normal"], Always()(x)["normal"], rtol=1e-4, atol=1e-5)


class KeepsMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 8)
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        self.mean = y.detach().mean()
        return y * self.mean


def test_a_module_in_evaluation_mode_predicts_by_the_buffers_that_it_has_just_written():
    module, x = KeepsMean().eval(), torch.randn(32, 64)
    run = Run(from_torch(module, {"x": x}).compile())
    expected = module(x).detach().numpy()
    np.testing.assert_allclose(run.predict({"x": x.numpy()})["output"], expected, rtol=1e-4, atol=1e-5)


class Drops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 8)

    def forward(self, x: Any) -> Any:
        return nn.functional.dropout(self.linear(x), 0.5, training=True)


@pytest.mark.parametrize("train", [False, True])
def test_dropout_that_a_module_calls_in_every_mode_drops_in_predictions(train: bool):
    module = Drops().train(train)
    run = Run(from_torch(module, {"x": torch.ones(32, 64)}).compile())
    found = run.predict({"x": np.ones((32, 64), np.float32)})["output"]
    assert 0.2 < (found == 0).mean() < 0.8
