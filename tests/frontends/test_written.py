"""Modules as users write them compute and train as in PyTorch, in float64 on both engines."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import prograd
from compiler.errors import CompileError
from frontends.agreement import agreement
from frontends.written import WRITTEN


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_module_predicts_and_trains_as_in_pytorch(name: str, engine: str):
    make, inputs = WRITTEN[name]
    torch.manual_seed(0)
    module, given = make().double(), inputs()
    doubled = {key: x.double() if x.is_floating_point() else x for key, x in given.items()}
    found = agreement(module, doubled, engine=engine)
    assert max(found.outputs, found.loss, found.gradients, found.statistics) < 1e-9, found


class WithLoss(nn.Module):
    """A network whose result is its loss, beside its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.PReLU(), nn.LayerNorm(8), nn.Linear(8, 4))
        self.criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5, 1.0]), label_smoothing=0.1)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.layers(x)
        return {"loss": self.criterion(logits, labels), "logits": logits}


def test_a_loss_inside_the_module_is_minimized_and_prediction_needs_no_labels():
    torch.manual_seed(0)
    module = WithLoss()
    x, labels = torch.randn(3, 6), torch.tensor([0, 3, 1])
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    program = prograd.from_torch(module, {"x": x, "labels": labels}, batch="batch", optimizer=optimizer)
    run = prograd.Run(program.compile(batch=3))
    wanted = module(x, labels)
    logits = run.predict({"x": x.numpy()})["logits"]
    assert abs(logits - wanted["logits"].detach().numpy()).max() < 1e-6
    for _ in range(2):
        loss = float(run.step({"x": x.numpy(), "labels": labels.numpy()})["loss"])
        assert loss == pytest.approx(module(x, labels)["loss"].item(), rel=1e-6)
        optimizer.zero_grad()
        module(x, labels)["loss"].backward()
        optimizer.step()


def test_a_result_that_is_named_like_an_input_gets_another_name(caplog: pytest.LogCaptureFixture):
    class Same(nn.Module):
        def forward(self, image: Tensor) -> dict[str, Tensor]:
            return {"image": image * 2} if self.training else {"image": image * 2, "in image": image + 1}

    program = prograd.from_torch(Same(), {"image": torch.ones(2, 3)})
    assert program.outputs_of_module == ["image_"]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "from_torch: the module's result 'image' is 'image_' in the program, where 'image' is another tensor"
    ]
    assert prograd.Run(program.compile()).predict({"image": [[1, 2, 3]] * 2})["image_"].tolist() == [[2, 4, 6]] * 2


def test_two_results_or_inputs_of_one_name_are_refused():
    class Nested(nn.Module):
        def forward(self, x: dict[str, Tensor], x_a: Tensor) -> dict[str, Any]:
            return {"sums": {"last": x["a"].sum(-1)}, "sums_last": x_a.sum(-1)}

    class Results(nn.Module):
        def forward(self, x: Tensor) -> dict[str, Any]:
            return {"sums": {"last": x.sum(-1)}, "sums_last": x.sum(0)}

    x = torch.ones(32, 64)
    with pytest.raises(CompileError, match=r"^from_torch: two inputs are named 'x_a'; name one of them otherwise$"):
        prograd.from_torch(Nested(), {"x": {"a": x}, "x_a": x})
    told = r"^from_torch: two results of the module are named 'sums_last'; name one of them otherwise$"
    with pytest.raises(CompileError, match=told):
        prograd.from_torch(Results(), {"x": x})


def test_rows_of_the_batch_are_read_from_both_ends():
    class Ends(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[0] - 2 * x[-1] + x[1:3].sum(0) + x[-3:-1].mean(0)

    x = torch.arange(20.0, dtype=torch.float64).reshape(5, 4).square()
    program = prograd.from_torch(Ends(), {"x": x}, batch="batch")
    for rows in (5, 3):
        found = prograd.Run(program.compile(batch=rows)).predict({"x": x[:rows].numpy()})["output"]
        assert found.tolist() == Ends()(x[:rows]).tolist()


def test_a_number_that_depends_on_the_rows_is_named():
    class Counts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * x.sum().item()

    with pytest.raises(prograd.CompileError, match="reads a number that is known only when the module runs"):
        prograd.from_torch(Counts(), {"x": torch.ones(2, 3)}, batch="batch")


@pytest.mark.parametrize(
    ("formula", "approximation"),
    [
        (lambda x: 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0)))), "tanh"),
        (lambda x: x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))), "tanh"),
        (lambda x: x * 0.5 * (1.0 + torch.erf(x / 2**0.5)), "none"),
        (lambda x: (torch.erf(x * 0.70710678118) + 1) * (0.5 * x), "none"),
        (lambda x: x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.04 * x * x))), ""),
        (lambda x: (x + 1) * 0.5 * (1.0 + torch.erf(x / 2**0.5)), ""),
    ],
)
def test_a_gelu_that_is_written_out_is_one_operator(formula, approximation: str):
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x: Tensor) -> Tensor:
            return formula(x * self.scale)

    module, x = Written(), torch.linspace(-4, 4, 15).reshape(3, 5)
    program = prograd.from_torch(module, {"x": x}, batch="batch")
    kinds = [op.type for op in program.compile(batch=3).desc.blocks[-1].ops]
    assert ("gelu" in kinds) == bool(approximation)
    assert not approximation or not {"tanh", "erf", "pow"} & {*kinds}
    found = agreement(module, {"x": x})
    assert max(found.outputs, found.loss, found.gradients) < 1e-4
    found = agreement(module.double(), {"x": x.double()})
    assert max(found.outputs, found.loss, found.gradients) < 1e-12, "the numbers count as they are written"


def test_wrong_shapes_are_one_sentence_and_pytorch_logs_nothing(caplog):
    with pytest.raises(
        prograd.CompileError, match=r"torch\.export cannot export Linear: a and b must have same reduction"
    ):
        prograd.from_torch(nn.Linear(3, 4), {"x": torch.ones(3, 5)})
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
