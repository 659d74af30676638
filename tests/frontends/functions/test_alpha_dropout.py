"""Alpha dropout of PyTorch, and dropout of tensors that are broadcast: each element has a draw of its own."""

import numpy as np
import pytest
import torch
from torch import nn

from prograd import Run, from_torch

RATE, ALPHA = 0.3, 1.7580993408473766
SCALE = ((1 - RATE) * (1 + RATE * ALPHA**2)) ** -0.5


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.AlphaDropout(RATE), (32, 64)), (nn.FeatureAlphaDropout(RATE), (32, 64, 3, 4)), (nn.AlphaDropout(0.0), (4, 3))],
)
def test_training_drops_and_evaluation_does_not(layer: nn.Module, shape: tuple[int, ...], engine: str):
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.scale = layer, nn.Parameter(torch.ones(1, dtype=torch.float64))

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            y = self.layer(x * self.scale)
            return {"y": y, "loss": y.mean()}

    x = np.random.default_rng(3).normal(size=shape)
    module = Net()
    program = from_torch(module, {"x": torch.from_numpy(x)}, optimizer=torch.optim.SGD(module.parameters(), lr=0.0))
    program.fetch("drawn", program["y"])
    run = Run(program.compile(), engine=engine)
    np.testing.assert_array_equal(run.predict({"x": x})["y"], x)
    found = run.step({"x": x})["drawn"]
    kept, dropped = SCALE * (x + ALPHA * RATE), np.full_like(x, -SCALE * ALPHA * (1 - RATE))
    if not layer.p:  # type: ignore[union-attr]
        np.testing.assert_array_equal(found, x)
        return
    is_dropped = np.isclose(found, dropped, rtol=1e-6)
    np.testing.assert_allclose(found, np.where(is_dropped, dropped, kept), rtol=1e-6)
    assert 0.2 < is_dropped.mean() < 0.4
    if x.ndim > 2:  # whole features
        assert {0.0, 1.0} == {*is_dropped.mean((2, 3)).reshape(-1)}


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_each_element_of_a_broadcast_tensor_has_its_own_draw(engine: str):
    class Places(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.ones(1, 8, dtype=torch.float64))

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            y = nn.functional.dropout(self.table.expand(x.shape[0], -1), 0.5, self.training)
            return {"y": x + y, "loss": y.mean()}

    x, module = np.zeros((64, 8)), Places()
    program = from_torch(module, {"x": torch.from_numpy(x)}, optimizer=torch.optim.SGD(module.parameters(), lr=0.0))
    program.fetch("drawn", program["y"])
    found = Run(program.compile(), engine=engine).step({"x": x})["drawn"]
    assert {*found.reshape(-1)} == {0.0, 2.0}
    assert len({tuple(row) for row in found}) > 32
