"""The networks of `from_pytorch.py`: modules, rows and optimizers, and the steps of each contender."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from by_hand import BY_HAND

WORDS, LENGTH, CLASSES = 8000, 128, 10
ROWS = 8
"""Batches that a run takes its steps from, in order, again and again."""


@dataclass(frozen=True)
class Network:
    """A training step.

    Attributes:
        make: the module, which takes rows and targets and returns its loss.
        batch: rows of a step.
        is_convolutional: True if channels last may help PyTorch.
        optimizer: "sgd", with momentum 0.9, or "adamw".
        budget: bytes of the arena that a step is planned for, by `compiler plan --budget`; 0 for no budget.
    """

    make: Callable[[], Any]
    batch: int
    is_convolutional: bool = False
    optimizer: str = "adamw"
    budget: int = 0


def _torchvision() -> Any:
    """Return the package, imported without its compiled operators, which a CPU build of PyTorch lacks."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from frontends.torchvision_without_operators import torchvision

    return torchvision()


def _transformers() -> Any:
    """Return the package, which imports torchvision where it is installed."""
    with suppress(ModuleNotFoundError):
        _torchvision()
    import transformers

    return transformers


def _of_torchvision(name: str, **more: Any) -> Callable[[], Any]:
    def make() -> Any:
        import torch

        torch.manual_seed(0)
        module = _torchvision().models.get_model(name, weights=None, num_classes=CLASSES, **more)
        return _with_loss(_without_dropout(module))

    return make


def _bert() -> Any:
    import torch

    transformers = _transformers()
    torch.manual_seed(0)
    sizes = dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
    none = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    configuration = transformers.BertConfig(
        vocab_size=WORDS, max_position_embeddings=LENGTH, num_labels=CLASSES, **sizes, **none
    )
    return _with_loss(transformers.BertForSequenceClassification(configuration), lambda result: result.logits)


def _gpt2() -> Any:
    import torch

    transformers = _transformers()
    torch.manual_seed(0)
    configuration = transformers.GPT2Config(
        n_embd=256,
        n_layer=4,
        n_head=4,
        vocab_size=WORDS,
        n_positions=LENGTH,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return _with_loss(
        transformers.GPT2LMHeadModel(configuration), lambda result: result.logits.reshape(-1, WORDS), flat=True
    )


def _with_loss(module: Any, logits: Callable[[Any], Any] = lambda result: result, *, flat: bool = False) -> Any:
    import torch

    class WithLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = module

        def forward(self, x: Any, target: Any) -> Any:
            wanted = target.reshape(-1) if flat else target
            return torch.nn.functional.cross_entropy(logits(self.network(x)), wanted)

    return WithLoss()


def _without_dropout(module: Any) -> Any:
    for child in module.modules():
        for name in ("p", "dropout", "attention_dropout"):
            if isinstance(getattr(child, name, None), float):
                setattr(child, name, 0.0)
    return module


NETWORKS = {
    "mobilenet_v3_small": Network(_of_torchvision("mobilenet_v3_small"), 32, True, "sgd"),
    "resnet18": Network(_of_torchvision("resnet18"), 16, True, "sgd"),
    "efficientnet_b0": Network(
        _of_torchvision("efficientnet_b0", stochastic_depth_prob=0.0), 16, True, "sgd", 170 << 20
    ),
    "vit_b_16": Network(_of_torchvision("vit_b_16", image_size=96), 8),
    "bert": Network(_bert, 8),
    "gpt2": Network(_gpt2, 8),
}


def rows(name: str, batch: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return batches of rows and targets, images with channels first."""
    rng = np.random.default_rng(0)
    if name in ("bert", "gpt2"):
        texts = [rng.integers(0, WORDS, (batch, LENGTH)) for _ in range(ROWS)]
        shape = (batch,) if name == "bert" else (batch, LENGTH)
        return [(x, rng.integers(0, CLASSES if name == "bert" else WORDS, shape)) for x in texts]
    images = [rng.normal(size=(batch, 3, 96, 96)).astype("float32") for _ in range(ROWS)]
    return [(x, rng.integers(0, CLASSES, batch)) for x in images]


def _optimizer(torch: Any, network: Network, module: Any, **more: Any) -> Any:
    if network.optimizer == "sgd":
        return torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9, **more)
    return torch.optim.AdamW(module.parameters(), lr=1e-4, **more)


def write(name: str, folder: Path) -> dict[str, str]:
    """Write the imported program, in a process that has PyTorch; return the files of the contenders."""
    import torch

    import prograd

    network = NETWORKS[name]
    module = network.make()
    x, y = (torch.from_numpy(array[:2]) for array in rows(name, network.batch)[0])
    optimizer = _optimizer(torch, network, module)
    program = prograd.from_torch(
        module, {"x": x, "target": y}, batch="batch", optimizer=optimizer, name=name, layout="torch"
    )
    files = {"prograd": str(_saved(program, network, folder / f"{name}.pb"))}
    if name in BY_HAND:
        files["by hand"] = str(_saved(_by_hand(name, network), network, folder / f"{name}_by_hand.pb"))
    return files


def _saved(program: Any, network: Network, path: Path) -> Path:
    compiled = program.compile(batch=network.batch)
    if network.budget:
        compiled.plan(budget=network.budget)
    compiled.save(path)
    return path


def _by_hand(name: str, network: Network) -> Any:
    import prograd

    x, y = rows(name, network.batch)[0]
    program = prograd.Program(f"{name}_by_hand")
    fed = program.input("x", str(x.dtype), ("batch", *x.shape[1:]))  # type: ignore[arg-type]
    target = program.input("target", "int64", ("batch", *y.shape[1:]))
    loss = prograd.ops.softmax_cross_entropy(BY_HAND[name](program, fed, CLASSES), target)
    is_sgd = network.optimizer == "sgd"
    program.minimize(loss, prograd.momentum(1e-3, momentum=0.9) if is_sgd else prograd.adamw(1e-4, decay=0.01))
    return program


def peak() -> int:
    """Return the largest resident memory of this process so far, in bytes; getrusage begins with the parent's."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def in_prograd(kind: str, name: str, file: str, threads: int) -> tuple[int, Callable[[], float]]:
    """Return the memory after the imports, and a function that makes a step and returns its loss."""
    import prograd

    run = prograd.load(file, engine="native", threads=threads)
    imported = peak()
    batches, number = rows(name, NETWORKS[name].batch), count()

    def step() -> float:
        x, y = batches[next(number) % ROWS]
        return float(run.step({"x": x, "target": y})["loss"])

    return imported, step


def in_torch(kind: str, name: str, file: str, threads: int) -> tuple[int, Callable[[], float]]:
    """Return the memory after the imports, and a function that makes a step and returns its loss."""
    import torch

    torch.set_num_threads(threads)
    network = NETWORKS[name]
    module = network.make().train()
    if kind == "torch channels-last":
        module = module.to(memory_format=torch.channels_last)
    imported = peak()
    optimizer = _optimizer(torch, network, module, fused=True)
    batches, number = rows(name, network.batch), count()

    def step() -> float:
        x, y = (torch.from_numpy(array) for array in batches[next(number) % ROWS])
        if kind == "torch channels-last":
            x = x.to(memory_format=torch.channels_last)
        optimizer.zero_grad()
        loss = module(x, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return imported, step
