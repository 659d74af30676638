"""A network of torchvision, begun in PyTorch, trained further without it, and given back.

    python examples/from_pytorch.py            writes to a temporary folder
    python examples/from_pytorch.py FOLDER     keeps the program and the weights

It needs `pip install ".[native,torch]" torchvision`. There is no from_pytorch.pb: the weights come from PyTorch.
"""

import sys
import tempfile
from pathlib import Path

import torch
import torchvision
from safetensors.torch import load_file

import prograd
from prograd import Program, Run, adamw, data, ops, warmup_cosine


class Digits(torch.nn.Module):
    """A small ShuffleNet on 8 x 8 digits of 0 to 16, which are enlarged to 32 x 32 in three equal channels."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torchvision.models.ShuffleNetV2([2, 2, 2], [16, 32, 64, 128, 128], num_classes=10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return the logits [n, 10] of images [n, 8, 8, 1]."""
        pixels = (image.float() / 16.0).permute(0, 3, 1, 2)
        enlarged = torch.nn.functional.interpolate(pixels, scale_factor=4.0)
        return self.network(enlarged.expand(-1, 3, -1, -1))


def begin(module: Digits, rows: dict[str, torch.Tensor]) -> None:
    """Train for one epoch in PyTorch."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=2e-3)
    module.train()
    for batch in rows["train"].split(32):
        optimizer.zero_grad()
        logits = module(rows["image"][batch])
        torch.nn.functional.cross_entropy(logits, rows["label"][batch]).backward()
        optimizer.step()


def build(module: Digits, epochs: int = 12) -> Program:
    """Return the training run, which begins with the module's weights and needs no PyTorch."""
    image = torch.zeros(2, 8, 8, 1, dtype=torch.uint8)  # an example of the argument: axis 0 becomes the batch
    program = prograd.from_torch(module, {"image": image}, batch="batch", name="from_pytorch")
    label = program.input("label", "int64", ("batch",))
    program.minimize(ops.softmax_cross_entropy(program["output"], label), adamw(warmup_cosine(3e-3)))
    program.metrics(accuracy=ops.accuracy(program["output"], label))
    program.data("digits.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=epochs, evaluate="test")
    return program


def train(module: Digits, folder: Path, epochs: int = 12) -> Run:
    """Save and train the program, and load the trained weights into the module."""
    build(module, epochs).compile(batch=32).save(folder / "from_pytorch.pb", force=True)
    run = prograd.load(folder / "from_pytorch.pb")
    run.train()
    run.save(folder / "trained.safetensors", layout="torch", force=True)
    module.load_state_dict(load_file(folder / "trained.safetensors"))
    return run


def main(folder: Path) -> None:
    """Train in both, and compare the predictions for digits that neither has seen."""
    torch.manual_seed(0)
    data.sample("digits", folder / "digits.safetensors")  # data are beside the program
    rows = load_file(folder / "digits.safetensors")
    module = Digits()
    begin(module, rows)
    run = train(module, folder)
    images, labels = (rows[name][rows["test"]] for name in ("image", "label"))
    with torch.no_grad():
        theirs = module.eval()(images).softmax(1)
    ours = torch.from_numpy(run.predict(images.numpy())["output"]).softmax(1)
    difference = float((ours - theirs).abs().max())
    assert difference < 1e-5, difference
    print(f"accuracy of PyTorch with the trained weights: {float((theirs.argmax(1) == labels).float().mean()):.3f}")
    print(f"largest difference of a probability: {difference:.1e}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
