"""Weights that a module computes from parameters, and draws of random numbers in it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from frontends.agreement import agreement
from prograd import Run, from_torch, ops, sgd

ROWS, SIZE = 32, 64


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm"])
def test_normalised_weights_train_as_in_pytorch(kind: str, engine: str):
    torch.manual_seed(0)
    normalised = getattr(parametrizations, kind)
    module = nn.Sequential(normalised(nn.Linear(SIZE, 48)), nn.Tanh(), normalised(nn.Linear(48, 8))).double()
    x = torch.randn(3, SIZE, dtype=torch.float64)
    found = agreement(module, {"input": x}, engine=engine)
    assert max(found.outputs, found.loss, found.gradients, found.statistics) < 1e-9, found


class Taught(nn.Module):
    """A layer that learns from another one, and from itself without gradients; and a count that it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.teacher = nn.Linear(SIZE, 16), nn.Linear(SIZE, 16)
        self.register_buffer("level", torch.ones(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            goal = (self.teacher(x) + self.layer(x)).tanh()
            if self.training:
                self.level.mul_(0.5).add_(goal.mean(0))
        return self.layer(x) * goal * self.level


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_no_gradient_flows_from_a_region_without_gradients(engine: str):
    torch.manual_seed(0)
    module = Taught().double()
    x = torch.randn(3, SIZE, dtype=torch.float64)
    found = agreement(module, {"x": x}, batch=None, engine=engine)
    assert max(found.outputs, found.loss, found.gradients, found.statistics) < 1e-9, found


class Coder(nn.Module):
    """A variational autoencoder, which adds noise to its codes."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(SIZE, 16), nn.Linear(8, SIZE)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        mean, logarithm = self.encoder(x).chunk(2, -1)
        code = mean + torch.randn_like(mean) * (0.5 * logarithm).exp()
        return {"mean": mean, "logarithm": logarithm, "code": code, "image": self.decoder(code)}


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_variational_autoencoder_draws_its_noise_anew_in_every_step(engine: str):
    torch.manual_seed(0)
    module, x = Coder(), torch.randn(ROWS, SIZE)
    program = from_torch(module, {"x": x}, batch="batch")
    program.minimize(ops.squared_error(program["image"], program["x"]), sgd(0.0))
    program.fetch("noise", (program["code"] - program["mean"]) * ops.exp(program["logarithm"] * -0.5))
    run = Run(program.compile(batch=ROWS), engine=engine)
    first, second = (np.asarray(run.step({"x": x.numpy()})["noise"]) for _ in range(2))
    assert abs(first.mean()) < 0.25
    assert 0.85 < first.std() < 1.15
    assert abs(first - second).max() > 0.5
    np.testing.assert_allclose(run.predict(x.numpy())["mean"], module(x)["mean"].detach().numpy(), rtol=1e-4, atol=1e-5)
