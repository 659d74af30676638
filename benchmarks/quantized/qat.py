"""Quantisation-aware training beside PyTorch's: what plain quantisation loses, and what training recovers.

    python benchmarks/quantized/qat.py

It needs PyTorch. Two networks are trained in floats on generated rows: a perceptron, and a convolutional network of
depthwise and 1x1 layers with batch normalisation. Then each hidden channel is multiplied by a random factor and the
weights that read it are divided by it. The function stays the same, but the ranges of channels differ, as in MobileNets
(Nagel et al., 2019), and eight bits hold less of them. Both programs quantise these weights, and train on from them.
"""

from __future__ import annotations

import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

import prograd
from prograd import Program, adam, layers, ops
from prograd_proto import program_pb2 as pb

CLASSES, TRAIN, TEST, BATCH = 10, 2048, 4096, 64
EPOCHS, MORE_EPOCHS, RATE, MORE_RATE = 10, 10, 2e-3, 5e-4
SPREAD = {"perceptron": 4.0, "pictures": 2.5}
"""Largest logarithm of the factor of a channel."""

SIZES = (64, 128, 128, CLASSES)
CHANNELS = ((16, 32), (32, 32), (32, 64))


def rows_of(name: str) -> dict[str, Any]:
    """Return rows of classes that overlap."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, CLASSES, TRAIN + TEST)
    if name == "perceptron":
        inner = rng.normal(size=(CLASSES, 8))[label] + rng.normal(0, 0.55, (len(label), 8))
        x = np.tanh(inner @ rng.normal(size=(8, SIZES[0])))
    else:
        coarse = rng.normal(size=(CLASSES, 4, 4, 1)).repeat(4, 1).repeat(4, 2)
        shift = rng.integers(0, 4, len(label))
        x = np.stack([np.roll(coarse[k], s, 1) for k, s in zip(label, shift, strict=True)])
        x = x + rng.normal(0, 3, x.shape)
    return {"x": x.astype("f4"), "label": label}


def program_of(name: str, rate: float, epochs: int) -> Program:
    """Return a network with its training."""
    program = Program(name, seed=3)
    label = program.input("label", "int64", ("batch",))
    if name == "perceptron":
        y = program.input("x", "float32", ("batch", SIZES[0]))
        for i, size in enumerate(SIZES[1:]):
            y = layers.dense(ops.relu(y) if i else y, f"dense{i}", size)
    else:
        y = program.input("x", "float32", ("batch", 16, 16, 1))
        y = _block(layers.conv(y, "first", CHANNELS[0][0]), "first")
        for i, (deep, wide) in enumerate(CHANNELS):
            y = _block(layers.conv(y, f"depth{i}", deep, groups=deep), f"depth{i}")
            y = _block(layers.conv(y, f"point{i}", wide, window=1), f"point{i}")
            y = ops.max_pool2d(y, window=2, stride=2) if i < 2 else y
        y = layers.dense(ops.mean(y, axis=(1, 2)), "head", CLASSES)
    program.minimize(ops.softmax_cross_entropy(y, label), adam(rate))
    program.metrics(accuracy=ops.accuracy(y, label))
    program.data("rows.safetensors", splits={"train": slice(0, TRAIN), "test": slice(TRAIN, TRAIN + TEST)})
    program.training(epochs=epochs, evaluate="test")
    return program


def _block(y: Any, name: str) -> Any:
    return ops.relu(layers.batch_norm(y, f"{name}_norm"))


def unbalanced(name: str, state: dict[str, Any]) -> dict[str, Any]:
    """Return states of the same function whose hidden channels have different ranges."""
    rng, made = np.random.default_rng(1), {key: np.array(value) for key, value in state.items()}
    if name == "perceptron":
        pairs = [((f"dense{i}.w", f"dense{i}.b"), f"dense{i + 1}.w") for i in range(len(SIZES) - 2)]
    else:
        names = ["first", *(f"{kind}{i}" for i in range(len(CHANNELS)) for kind in ("depth", "point"))]
        readers = zip(names, [*names[1:], "head"], strict=True)
        pairs = [((f"{a}_norm.scale", f"{a}_norm.bias"), f"{b}.w") for a, b in readers]
    for makers, reader in pairs:
        factors = np.exp(rng.uniform(-SPREAD[name], SPREAD[name], made[makers[0]].shape[-1])).astype("f4")
        for maker in makers:
            made[maker] = made[maker] * factors
        w = made[reader]
        is_depthwise = w.ndim == 4 and w.shape[2] == 1
        made[reader] = w / factors if is_depthwise else w / factors[:, None]
    return made


def ours(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the weights that both begin with, and the accuracies of our programs."""
    save_file(rows_of(name), str(folder / "rows.safetensors"))
    program_of(name, RATE, EPOCHS).compile(batch=BATCH, folder=folder).save(folder / "net.pb")
    run = prograd.load(folder / "net.pb")
    run.train()
    kinds = pb.STATE_KIND_PARAMETER, pb.STATE_KIND_BUFFER
    weights = unbalanced(name, {s.name: run.state[s.name] for s in run.program.states if s.kind in kinds})
    save_file(weights, str(folder / "weights.safetensors"))
    found: dict[str, float] = {}
    run = _loaded(folder / "net.pb", folder)
    found["floats"] = accuracy(run)
    plain = Program.load(folder / "net.pb")
    plain.quantize("int8", run=run, rows="train")
    plain.compile(folder=folder).save(folder / "plain.pb")
    found["quantised"] = accuracy(prograd.load(folder / "plain.pb"))
    program_of(name, MORE_RATE, MORE_EPOCHS).compile(batch=BATCH, folder=folder, qat="int8").save(folder / "learns.pb")
    run = _loaded(folder / "learns.pb", folder)
    run.train()
    found["trained"] = accuracy(run)
    learned = Program.load(folder / "learns.pb")
    learned.name = "learned"
    learned.quantize("int8", run=run)
    learned.compile(folder=folder).save(folder / "learned.pb")
    after = prograd.load(folder / "learned.pb").evaluate("test")
    assert after == run.evaluate("test"), "integers evaluate as the training did"
    return weights, found


def _loaded(path: Path, folder: Path) -> prograd.Run:
    run = prograd.load(path)
    run.load(folder / "weights.safetensors")
    return run


def accuracy(run: prograd.Run) -> float:
    """Return the accuracy of the test rows."""
    return float(run.evaluate("test")["accuracy"])


def theirs(torch: Any, name: str, weights: dict[str, Any]) -> dict[str, float]:
    """Return the accuracies of PyTorch's quantisation, and of its training, from the same weights."""
    tools, rows, found = import_module("torch.ao.quantization"), rows_of(name), {}
    torch.backends.quantized.engine = "onednn"
    x, label = torch.tensor(rows["x"]), torch.tensor(rows["label"])
    x = x.permute(0, 3, 1, 2).contiguous() if x.ndim == 4 else x

    def right(net: Any) -> float:
        with torch.no_grad():
            return float((net(x[TRAIN:]).argmax(1) == label[TRAIN:]).float().mean())

    net = network(torch, name, weights).eval()
    found["floats"] = right(net)
    net = tools.fuse_modules(net, groups_of(name))
    net.qconfig = tools.get_default_qconfig("onednn")
    tools.prepare(net, inplace=True)
    right_rows = x[:1024]
    with torch.no_grad():
        net(right_rows)
    found["quantised"] = right(tools.convert(net))
    net = tools.fuse_modules_qat(network(torch, name, weights).train(), groups_of(name))
    net.qconfig = tools.get_default_qat_qconfig("onednn")
    tools.prepare_qat(net, inplace=True)
    optimizer, generator = torch.optim.Adam(net.parameters(), MORE_RATE), torch.Generator().manual_seed(0)
    for epoch in range(MORE_EPOCHS):
        if epoch == MORE_EPOCHS * 3 // 4:
            net.apply(torch.nn.intrinsic.qat.freeze_bn_stats)
        for chosen in torch.randperm(TRAIN, generator=generator).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[chosen]), label[chosen]).backward()
            optimizer.step()
    found["trained"] = right(tools.convert(net.eval()))
    return found


def network(torch: Any, name: str, weights: dict[str, Any]) -> Any:
    """Return PyTorch's network with our weights."""
    nn = torch.nn
    made: list[Any] = [torch.ao.quantization.QuantStub()]
    w = {key: torch.tensor(value) for key, value in weights.items()}

    def dense(key: str) -> Any:
        layer = nn.Linear(*w[f"{key}.w"].shape)
        layer.weight.data, layer.bias.data = w[f"{key}.w"].T.contiguous(), w[f"{key}.b"]
        return layer

    def conv(key: str) -> list[Any]:
        window, _, deep, wide = w[f"{key}.w"].shape
        groups = wide if key.startswith("depth") else 1
        layer = nn.Conv2d(deep * groups, wide, window, 1, window // 2, groups=groups)
        layer.weight.data, layer.bias.data = w[f"{key}.w"].permute(3, 2, 0, 1).contiguous(), w[f"{key}.b"]
        norm = nn.BatchNorm2d(wide)
        norm.weight.data, norm.bias.data = w[f"{key}_norm.scale"], w[f"{key}_norm.bias"]
        norm.running_mean, norm.running_var = w[f"{key}_norm.mean"], w[f"{key}_norm.variance"]
        return [layer, norm, nn.ReLU()]

    if name == "perceptron":
        for i in range(len(SIZES) - 1):
            made += [nn.ReLU()] * (i > 0) + [dense(f"dense{i}")]
    else:
        made += conv("first")
        for i in range(len(CHANNELS)):
            made += conv(f"depth{i}") + conv(f"point{i}") + [nn.MaxPool2d(2)] * (i < 2)
        made += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), dense("head")]
    return nn.Sequential(*made, torch.ao.quantization.DeQuantStub())


def groups_of(name: str) -> list[list[str]]:
    """Return the numbers of the modules that PyTorch fuses."""
    if name == "perceptron":
        return [["1", "2"], ["3", "4"]]
    return [[str(i) for i in range(start, start + 3)] for start in (1, 4, 7, 11, 14, 18, 21)]


def main() -> None:
    """Print a line for each network and program."""
    torch = import_module("torch")
    torch.manual_seed(0)
    warnings.simplefilter("ignore")  # PyTorch's quantisation is deprecated there in favour of another package
    print("network      program    floats   quantised   trained   share recovered")
    for name in SPREAD:
        with tempfile.TemporaryDirectory() as folder:
            weights, own = ours(name, Path(folder))
        for program, found in (("prograd", own), ("PyTorch", theirs(torch, name, weights))):
            lost = found["floats"] - found["quantised"]
            share = (found["trained"] - found["quantised"]) / lost
            print(
                f"{name:<12} {program:<8} {found['floats']:>8.4f} {found['quantised']:>11.4f} "
                f"{found['trained']:>9.4f} {share:>17.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
