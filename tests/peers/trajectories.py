"""Training runs of 200 steps in float64, by prograd's runtime and by PyTorch, from equal parameters with equal batches.

Each model is written twice, with the operators of prograd and with PyTorch's functions; parameters are named alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as tf
from subjects.steps import Stepper

import compiler
from compiler import Program, Value, constant, ops
from compiler.train.clipping import global_norm
from compiler.train.optimizers import Optimizer

STEPS = 200

Arrays = dict[str, np.ndarray]
Values = Mapping[str, Value]
Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Training:
    """A model in both forms, an optimizer in both forms, and what they begin with."""

    shapes: dict[str, tuple[int, ...]]
    batch: Callable[[np.random.Generator], Arrays]
    ours: Callable[[Values, Values], Value]
    theirs: Callable[[Tensors, Tensors], torch.Tensor]
    optimizer: Callable[[], Optimizer]
    torch_optimizer: Callable[[list[torch.Tensor]], torch.optim.Optimizer]
    limit: float = 1e-9  # of the largest difference, relative
    clip: float | None = None  # of the norm of all gradients


@dataclass(frozen=True)
class Difference:
    """The largest differences of a run, relative to the largest number: of losses, and of a parameter at the end."""

    loss: float
    parameters: float
    first: float  # loss
    last: float  # loss


def run(training: Training, steps: int = STEPS) -> Difference:
    """Train both ways."""
    rng = np.random.default_rng(3)
    start = {name: _start(rng, shape) for name, shape in training.shapes.items()}
    batches = [training.batch(rng) for _ in range(steps)]
    our_losses, our_end = _ours(training, start, batches)
    their_losses, their_end = _theirs(training, start, batches)
    worst = max(_relative(our_end[name], their_end[name]) for name in start)
    return Difference(_each_relative(our_losses, their_losses), worst, their_losses[0], their_losses[-1])


def _start(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers as wide as the number of inputs asks for; ones and zeros would hide an exchange of the two."""
    return (
        rng.normal(size=shape) / np.sqrt(max(1, int(np.prod(shape[:-1]))))
        if len(shape) > 1
        else (1 + 0.1 * rng.normal(size=shape))
    )


def _ours(training: Training, start: Arrays, batches: list[Arrays]) -> tuple[list[float], Arrays]:
    program = Program()
    w = {name: program.parameter(name, x.shape, constant(0.0), dtype="float64") for name, x in start.items()}
    feeds = {name: program.input(name, x.dtype.name, x.shape) for name, x in batches[0].items()}
    clip = None if training.clip is None else global_norm(training.clip)
    program.minimize(training.ours(w, feeds), training.optimizer(), clip=clip)
    stepper = Stepper(program.compile())
    for name, x in start.items():
        stepper.states.arrays[name][...] = x
    losses = [float(stepper.step(**batch)["loss"]) for batch in batches]
    return losses, stepper.snapshot()


def _theirs(training: Training, start: Arrays, batches: list[Arrays]) -> tuple[list[float], Arrays]:
    w = {name: torch.tensor(x, requires_grad=True) for name, x in start.items()}
    optimizer = training.torch_optimizer(list(w.values()))
    losses: list[float] = []
    for batch in batches:
        optimizer.zero_grad()
        loss = training.theirs(w, {name: torch.tensor(x) for name, x in batch.items()})
        loss.backward()
        if training.clip is not None:
            torch.nn.utils.clip_grad_norm_(list(w.values()), training.clip)
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: x.detach().numpy() for name, x in w.items()}


def _relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))


def _each_relative(found: list[float], wanted: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True))


# a perceptron with two hidden layers

PERCEPTRON = {"w1": (10, 32), "b1": (32,), "w2": (32, 24), "b2": (24,), "w3": (24, 5), "b3": (5,)}


def _rows(rng: np.random.Generator) -> Arrays:
    x = rng.normal(size=(32, 10))
    return {"x": x, "label": (np.abs(x[:, :5]) + 0.3 * rng.normal(size=(32, 5))).argmax(1)}


def _perceptron(w: Values, batch: Values) -> Value:
    h = ops.tanh(batch["x"] @ w["w1"] + w["b1"])
    h = ops.relu(h @ w["w2"] + w["b2"])
    return ops.softmax_cross_entropy(h @ w["w3"] + w["b3"], batch["label"])


def _torch_perceptron(w: Tensors, batch: Tensors) -> torch.Tensor:
    h = torch.tanh(batch["x"] @ w["w1"] + w["b1"])
    h = torch.relu(h @ w["w2"] + w["b2"])
    return tf.cross_entropy(h @ w["w3"] + w["b3"], batch["label"])


# a convolutional network with batch normalisation

CONVOLUTIONAL = {
    **{"filter1": (3, 3, 2, 8), "scale": (8,), "bias": (8,)},
    **{"filter2": (3, 3, 4, 12), "w": (12, 4), "b": (4,)},
}


def _images(rng: np.random.Generator) -> Arrays:
    label = rng.integers(0, 4, 16)
    x = rng.normal(size=(16, 8, 8, 2))
    for row, at in zip(x, label, strict=True):
        row[4 * (at // 2) : 4 * (at // 2) + 4, 4 * (at % 2) : 4 * (at % 2) + 4] += 0.7
    return {"x": x, "label": label}


def _convolutional(w: Values, batch: Values) -> Value:
    h = ops.conv2d(batch["x"], w["filter1"], padding=(1, 1))
    block = h.block
    running = [ops.full.on(block)(shape=(8,), value=value, dtype="float64") for value in (0.0, 1.0)]
    h = ops.relu(ops.batch_norm(h, w["scale"], w["bias"], *running)[0])
    h = ops.max_pool2d(h, window=(2, 2), stride=(2, 2))
    h = ops.gelu(ops.conv2d(h, w["filter2"], stride=(2, 2), padding=(1, 1), groups=2))
    return ops.softmax_cross_entropy(ops.mean(h, axis=(1, 2)) @ w["w"] + w["b"], batch["label"])


def _torch_convolutional(w: Tensors, batch: Tensors) -> torch.Tensor:
    first, second = (w[name].permute(3, 2, 0, 1) for name in ("filter1", "filter2"))
    h = tf.conv2d(batch["x"].permute(0, 3, 1, 2), first, padding=1)
    h = torch.relu(tf.batch_norm(h, None, None, w["scale"], w["bias"], training=True))
    h = tf.gelu(tf.conv2d(tf.max_pool2d(h, 2), second, stride=2, padding=1, groups=2))
    return tf.cross_entropy(h.mean((2, 3)) @ w["w"] + w["b"], batch["label"])


# a language model of two LSTM layers

WORDS, UNITS = 11, 16
RECURRENT = {
    "table": (WORDS, UNITS),
    **{f"{kind}{layer}": (UNITS, 4 * UNITS) for layer in (0, 1) for kind in ("input", "state")},
    **{f"bias{layer}{kind}": (4 * UNITS,) for layer in (0, 1) for kind in ("input", "state")},
    **{"w": (UNITS, WORDS), "b": (WORDS,)},
}


def _words(rng: np.random.Generator) -> Arrays:
    """Each number follows from the two before it, but for some noise."""
    text = rng.integers(0, WORDS, (12, 21))
    for i in range(2, 21):
        text[:, i] = np.where(rng.random(12) < 0.9, (text[:, i - 1] + 2 * text[:, i - 2]) % WORDS, text[:, i])
    return {"x": text[:, :-1].copy(), "label": text[:, 1:].copy()}


def _layers(w: Mapping[str, Any]) -> list[Any]:
    return [w[name] for i in (0, 1) for name in (f"input{i}", f"state{i}", f"bias{i}input", f"bias{i}state")]


def _recurrent(w: Values, batch: Values) -> Value:
    y, _, _ = ops.lstm(ops.embedding(w["table"], batch["x"]), *_layers(w))
    return ops.softmax_cross_entropy(y @ w["w"] + w["b"], batch["label"])


def _torch_recurrent(w: Tensors, batch: Tensors) -> torch.Tensor:
    weights = [x.T if x.dim() == 2 else x for x in _layers(w)]
    zero = torch.zeros(2, 12, UNITS, dtype=torch.float64)
    y, _, _ = torch.lstm(tf.embedding(batch["x"], w["table"]), (zero, zero), weights, True, 2, 0.0, True, False, True)
    return tf.cross_entropy((y @ w["w"] + w["b"]).flatten(0, 1), batch["label"].flatten())


# a transformer of two blocks, with the table of words also at its end

WIDE, HEADS, LONG = 24, 3, 20
BLOCK = {
    **{"scale1": (WIDE,), "shift1": (WIDE,), "qkv": (WIDE, 3 * WIDE), "out": (WIDE, WIDE)},
    **{"scale2": (WIDE,), "shift2": (WIDE,), "up": (WIDE, 2 * WIDE), "bias": (2 * WIDE,), "down": (2 * WIDE, WIDE)},
}
TRANSFORMER = {
    **{"table": (WORDS, WIDE), "places": (LONG, WIDE), "scale": (WIDE,), "shift": (WIDE,)},
    **{f"{name}{i}": shape for i in (0, 1) for name, shape in BLOCK.items()},
}


def _transformer(w: Values, batch: Values) -> Value:
    x = ops.embedding(w["table"], batch["x"]) + w["places"]
    for i in (0, 1):
        h = ops.layer_norm(x, w[f"scale1{i}"], w[f"shift1{i}"])[0] @ w[f"qkv{i}"]
        h = ops.transpose(ops.reshape(h, shape=(12, LONG, 3, HEADS, -1)), axis=(2, 0, 3, 1, 4))
        h = ops.scaled_dot_product_attention(*ops.unstack(h), causal=True)
        x = x + ops.reshape(ops.transpose(h, axis=(0, 2, 1, 3)), shape=(12, LONG, WIDE)) @ w[f"out{i}"]
        h = ops.layer_norm(x, w[f"scale2{i}"], w[f"shift2{i}"])[0] @ w[f"up{i}"] + w[f"bias{i}"]
        x = x + ops.gelu(h) @ w[f"down{i}"]
    x = ops.layer_norm(x, w["scale"], w["shift"])[0]
    return ops.softmax_cross_entropy(ops.matmul(x, w["table"], transpose_b=True), batch["label"])


def _torch_transformer(w: Tensors, batch: Tensors) -> torch.Tensor:
    x = tf.embedding(batch["x"], w["table"]) + w["places"]
    for i in (0, 1):
        h = tf.layer_norm(x, (WIDE,), w[f"scale1{i}"], w[f"shift1{i}"]) @ w[f"qkv{i}"]
        q, k, v = h.reshape(12, LONG, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        h = tf.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + h.transpose(1, 2).reshape(12, LONG, WIDE) @ w[f"out{i}"]
        h = tf.layer_norm(x, (WIDE,), w[f"scale2{i}"], w[f"shift2{i}"]) @ w[f"up{i}"] + w[f"bias{i}"]
        x = x + tf.gelu(h) @ w[f"down{i}"]
    x = tf.layer_norm(x, (WIDE,), w["scale"], w["shift"])
    return tf.cross_entropy((x @ w["table"].T).flatten(0, 1), batch["label"].flatten())


MODELS: dict[str, Training] = {
    "a perceptron, momentum": Training(
        PERCEPTRON,
        _rows,
        _perceptron,
        _torch_perceptron,
        lambda: compiler.momentum(0.05, momentum=0.9, decay=1e-3),
        lambda w: torch.optim.SGD(w, 0.05, momentum=0.9, weight_decay=1e-3),
    ),
    "a convolutional network, adam": Training(
        CONVOLUTIONAL,
        _images,
        _convolutional,
        _torch_convolutional,
        lambda: compiler.adam(3e-3),
        lambda w: torch.optim.Adam(w, 3e-3),
    ),
    "an LSTM, adam, gradients limited": Training(
        RECURRENT,
        _words,
        _recurrent,
        _torch_recurrent,
        lambda: compiler.adam(1e-2),
        lambda w: torch.optim.Adam(w, 1e-2),
        limit=1e-7,
        clip=1.0,
    ),
    "a transformer, adamw, gradients limited": Training(
        TRANSFORMER,
        _words,
        _transformer,
        _torch_transformer,
        lambda: compiler.adamw(3e-3, decay=0.1),
        lambda w: torch.optim.AdamW(w, 3e-3, weight_decay=0.1),
        clip=1.0,
    ),
}

OPTIMIZERS: dict[str, tuple[Callable[[], Optimizer], Callable[[list[torch.Tensor]], torch.optim.Optimizer]]] = {
    "sgd": (lambda: compiler.sgd(0.05, decay=0.01), lambda w: torch.optim.SGD(w, 0.05, weight_decay=0.01)),
    "nesterov": (lambda: compiler.nesterov(0.02), lambda w: torch.optim.SGD(w, 0.02, momentum=0.9, nesterov=True)),
    "adam": (lambda: compiler.adam(decay=0.01), lambda w: torch.optim.Adam(w, weight_decay=0.01)),
    "amsgrad": (lambda: compiler.adam(amsgrad=True), lambda w: torch.optim.Adam(w, amsgrad=True)),
    "adamw": (lambda: compiler.adamw(amsgrad=True), lambda w: torch.optim.AdamW(w, amsgrad=True)),
    "adamax": (lambda: compiler.adamax(decay=0.01), lambda w: torch.optim.Adamax(w, weight_decay=0.01)),
    "radam": (lambda: compiler.radam(decay=0.01), lambda w: torch.optim.RAdam(w, weight_decay=0.01)),
    "adagrad": (
        lambda: compiler.adagrad(rate_decay=0.01, initial=0.1),
        lambda w: torch.optim.Adagrad(w, lr_decay=0.01, initial_accumulator_value=0.1),
    ),
    "adadelta": (compiler.adadelta, torch.optim.Adadelta),
    "rmsprop": (lambda: compiler.rmsprop(momentum=0.9), lambda w: torch.optim.RMSprop(w, momentum=0.9)),
    "rmsprop, centred": (
        lambda: compiler.rmsprop(1e-3, centred=True),
        lambda w: torch.optim.RMSprop(w, 1e-3, centered=True),
    ),
}

TRAININGS = MODELS | {
    f"a perceptron, {name}": Training(PERCEPTRON, _rows, _perceptron, _torch_perceptron, *both)
    for name, both in OPTIMIZERS.items()
}
TRAININGS["a perceptron, nadam"] = Training(
    PERCEPTRON,
    _rows,
    _perceptron,
    _torch_perceptron,
    compiler.nadam,
    torch.optim.NAdam,
    limit=1e-8,  # PyTorch keeps the product of its factors in float32
)
"""All runs by name."""
