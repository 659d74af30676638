"""from_torch: regions of torch.autocast are mixed precision of the program, or refused."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from compiler import CompileError
from frontends.modes.test_dropped_by_export import told
from prograd import Run, from_torch, mixed


class Cast(nn.Module):
    def __init__(self, dtype: Any = torch.bfloat16, outside: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.head, self.norm = nn.Linear(64, 32), nn.Linear(32, 8), nn.LayerNorm(32)
        self.dtype, self.outside = dtype, outside

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=self.dtype):
            y = self.norm(torch.relu(self.first(x)))
            z = self.head(y) if self.outside != "head" else y
        if self.outside == "head":
            return self.head(y.float())
        return z.float() @ z.float().T if self.outside == "product" else z.float()


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("outside", ["", "head"])
def test_a_region_is_mixed_precision_of_its_products(outside: str, engine: Any):
    module, x = Cast(outside=outside), torch.randn(32, 64)
    program = from_torch(module, {"x": x}, batch="batch")
    assert program.mixed_of_import == mixed("bfloat16", keep=["head.weight"] if outside else [])
    found = Run(program.compile(batch=32), engine=engine).predict({"x": x.numpy()})["output"]
    wanted = module(x).detach().numpy()
    np.testing.assert_allclose(found, wanted, atol=0.02 * abs(wanted).max())
    wide = from_torch(module, {"x": x}, mixed=mixed("bfloat16", keep=["*"])).compile()
    assert abs(Run(wide).predict({"x": x.numpy()})["output"] - wanted).max() > 0


def test_what_mixed_precision_does_not_do_is_refused():
    assert told(Cast(torch.float16)) == (
        "from_torch: autocast to float16 is not imported; use dtype=torch.bfloat16, or leave autocast out"
    )
    assert told(Cast(outside="product")) == (
        "from_torch: aten.matmul.default outside of the regions of autocast (at test_autocast.py:28) has no weight, "
        "and mixed precision would round it, too; put it into a region, or leave autocast out and import with mixed="
    )


def test_an_exported_program_with_a_region_is_refused():
    exported = torch.export.export(Cast(), (torch.zeros(32, 64),))
    with pytest.raises(CompileError) as caught:
        from_torch(exported)
    assert str(caught.value) == (
        "from_torch: the exported program has regions of autocast; give the module itself, or export it without "
        "autocast and import with mixed="
    )
