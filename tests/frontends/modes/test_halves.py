"""from_torch: modules in float16 and bfloat16, and parts of modules in them, round as PyTorch does."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from subjects.commands import told
from torch import nn

from compiler import CompileError
from prograd import Run, from_torch

DIGITS = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
"""The distance between neighbours above 1."""

both_dtypes = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
both_engines = pytest.mark.parametrize("engine", ["reference", "native"])


class Part(nn.Module):
    """Computes a part in halves, and keeps a table of them."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.layer, self.dtype = nn.Linear(64, 32), dtype
        self.register_buffer("table", torch.randn(64).to(dtype), persistent=False)

    def forward(self, x: Any) -> Any:
        y = self.layer(x.to(self.dtype).float()) + self.table.float()[:32]
        return y + (y.to(self.dtype) @ self.layer.weight.to(self.dtype))[:, :32].softmax(1)


class Texts(nn.Module):
    """A layer of a transformer, with casts between dtypes, constants and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(100, 64), nn.LayerNorm(64)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.wide, self.narrow, self.head = nn.Linear(64, 128), nn.Linear(128, 64), nn.Linear(64, 100, bias=False)
        self.register_buffer("positions", torch.randn(16, 64))

    def forward(self, x: Any) -> Any:
        y = self.table(x) + self.positions[: x.shape[1]]
        z = self.norm(y)
        y = y + self.attention(z, z, z, need_weights=False)[0]
        y = y + self.narrow(nn.functional.gelu(self.wide(y))) * 0.5
        y = y + y.float().mean(-1, keepdim=True).to(y.dtype) * torch.arange(64, dtype=y.dtype).softmax(0)
        return self.head(y)


class Images(nn.Module):
    """Convolutions, also grouped, with batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.head = nn.Conv2d(16, 32, 3, stride=2, groups=2), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.second(torch.relu(self.norm(self.first(x)))).mean((2, 3)))


@both_dtypes
@both_engines
def test_parts_in_halves_round_as_pytorch_does(dtype: Any, engine: str):
    torch.manual_seed(1)
    module, x = Part(dtype), torch.randn(32, 64)
    run = Run(from_torch(module, {"x": x}, batch="batch").compile(batch=32), engine=engine)
    found, wanted = run.predict({"x": x.numpy()})["output"], module(x).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=0.25 * DIGITS[dtype])


@both_dtypes
@both_engines
@pytest.mark.parametrize("kind", [Texts, Images])
def test_a_module_in_halves_is_as_near_to_its_numbers_as_in_pytorch(kind: Any, dtype: Any, engine: str):
    torch.manual_seed(0)
    module = kind().to(dtype)
    x = torch.randint(0, 100, (32, 16)) if kind is Texts else torch.randn(32, 3, 16, 16).to(dtype)
    run = Run(from_torch(module, {"x": x}, batch="batch").compile(batch=32), engine=engine)
    feed = x if kind is Texts else x.float()
    found = run.predict({"x": feed.numpy()})["output"]
    module.eval()
    there = module(x).float().detach().numpy()
    exact = copy.deepcopy(module).double()(x if kind is Texts else x.double()).detach().numpy()
    assert found.dtype == np.float32
    assert np.abs(found - exact).max() <= 1.5 * np.abs(there - exact).max()


@both_dtypes
@both_engines
def test_steps_of_a_module_in_halves_are_as_near_to_exact_ones_as_in_pytorch(dtype: Any, engine: str, tmp_path: Path):
    torch.manual_seed(0)
    module, x, y = Images().to(dtype), torch.randn(32, 3, 16, 16).to(dtype), torch.randint(0, 10, (32,))
    there, exact = copy.deepcopy(module), copy.deepcopy(module).double()
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.01, momentum=0.9) for each in (module, there, exact)]
    program = from_torch(module, {"x": x}, batch="batch", loss=nn.CrossEntropyLoss(), optimizer=optimizers[0])
    run = Run(program.compile(batch=32), engine=engine)
    for _ in range(5):
        run.step({"x": x.float().numpy(), "target": y.numpy()})
        for each, optimizer, given in ((there, optimizers[1], x), (exact, optimizers[2], x.double())):
            optimizer.zero_grad()
            nn.functional.cross_entropy(each(given), y).backward()
            optimizer.step()
    run.save(tmp_path / "weights.safetensors", layout="torch")
    from safetensors.torch import load_file

    module.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    for name, wanted in exact.state_dict().items():
        ours, theirs = module.state_dict()[name], there.state_dict()[name]
        assert ours.dtype == theirs.dtype
        if theirs.dtype == dtype:
            error, allowed = ((x.double() - wanted).abs().max().item() for x in (ours, theirs))
            assert error <= 1.5 * allowed + DIGITS[dtype] * wanted.abs().max().item(), name


def test_a_state_in_an_unknown_dtype_is_refused():
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones(8).to(torch.float8_e4m3fn))

        def forward(self, x: Any) -> Any:
            return x * self.scale.float()

    assert told(CompileError, lambda: from_torch(Small(), {"x": torch.randn(32, 8)}, batch="batch")) == (
        "scale is float8_e4m3fn, and states are float16, bfloat16, float32 or float64; call module.float() before the "
        "import or the export"
    )
