"""A spelling against PyTorch, on one sample after another: values, first and second gradients.

1. The tensors of a sample become tensors of a block; everything else is passed on as it is.
2. PyTorch computes the results y; random numbers s are their gradients. The first gradients are those of the sum of
   s * y for each input; with random numbers v for each of them, the second ones are those of the sum of v times
   the first gradients, for each input and each s. No gradient is as good as one of zeros.
3. The block gets the spelling's ops and the gradients that `compiler.gradients` appends, and is interpreted.
4. Two arrays agree if the largest difference is within the tolerance times the largest number, or times 1 if
   that is more; infinities and NaN must be in the same places.
"""

from __future__ import annotations

import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import torch
from oracles.interpret import interpret
from torch.nn.attention import SDPBackend, sdpa_kernel

from compiler import Value, gradients
from peers.spelling import Call, Peer, UnsupportedSampleError
from prograd_proto import TensorType
from registry import Block, OpError
from runtime.errors import ExecutionError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch's own tests import what it has deprecated
    from torch.testing._internal.common_methods_invocations import op_db

KINDS = {torch.float64: "float64", torch.int64: "int64", torch.int32: "int32", torch.bool: "bool"}


@dataclass
class Outcome:
    """Outcome of all samples of a peer."""

    compared: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    operators: set[str] = field(default_factory=set)
    second: int = 0  # of those that were compared, how many have a second gradient
    largest: float = 0.0  # difference


def compare(peer: Peer) -> Outcome:
    """Try all samples."""
    outcome = Outcome()
    torch.manual_seed(zlib.crc32(str(peer).encode()))  # that of some samples is in their making
    for number, (function, args, kwargs) in enumerate(_samples(peer)):
        try:
            _compare(peer, outcome, function, args, kwargs, np.random.default_rng(number))
            outcome.compared += 1
        except UnsupportedSampleError as reason:
            outcome.left_out[str(reason)] += 1
        except Disagreement as fault:
            outcome.compared += 1
            outcome.faults.append(f"sample {number} ({_shown([*args, kwargs])}): {fault}")
    return outcome


class Disagreement(Exception):
    """Two arrays that should be equal."""


def _samples(peer: Peer) -> Iterator[tuple[Callable[..., Any], list[Any], dict[str, Any]]]:
    if peer.inputs is not None:
        function = reduce(getattr, peer.function.split("."), torch)
        for call in peer.inputs(np.random.default_rng(7)):
            yield function, *_as_tensors(call)
        return
    [info] = [info for info in op_db if info.name == peer.function and info.variant_test_name == peer.variant]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the samples' making
        samples = list(info.sample_inputs("cpu", torch.float64, requires_grad=info.supports_autograd))
    for sample in samples:
        yield info.get_op(), [sample.input, *sample.args], dict(sample.kwargs)


def _as_tensors(call: Call) -> tuple[list[Any], dict[str, Any]]:
    def tensor(x: Any) -> Any:
        if isinstance(x, list):
            return [tensor(item) for item in x]
        if not isinstance(x, np.ndarray):
            return x
        return torch.tensor(x, requires_grad=x.dtype == np.float64)

    args, kwargs = call
    return [tensor(x) for x in args], {name: tensor(x) for name, x in kwargs.items()}


def _compare(
    peer: Peer,
    outcome: Outcome,
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    rng: np.random.Generator,
) -> None:
    side = _Sides(rng)
    args, kwargs = _each(side.tensor, args), _each(side.tensor, kwargs)
    spelled = _flat(_refusing(lambda: peer.spelling(*_each(side.value, args), **_each(side.value, kwargs))))
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH):  # the only attention with a second gradient
        warnings.simplefilter("ignore")  # PyTorch warns of what it will change
        results = _flat(function(*args, **kwargs))
    if len(results) != len(spelled):
        raise Disagreement(f"PyTorch gives {len(results)} results, the spelling {len(spelled)}")
    inputs = [pair for pair in side.pairs if pair.tensor is not None and pair.tensor.requires_grad]
    results = [Pair("result", y, r) for y, r in zip(spelled, results, strict=True)]
    ends = [pair for pair in results if pair.tensor is not None and pair.tensor.is_floating_point()]
    seeds = [side.random(pair) for pair in ends]
    firsts = _gradients("first gradient", ends, inputs, seeds)
    weights = [side.random(pair) for pair in inputs]
    seconds = _gradients("second gradient", firsts, [*inputs, *seeds], weights) if peer.orders > 1 else []
    arrays = _refusing(lambda: interpret(side.block.desc, side.feeds))
    outcome.operators |= {desc.type for desc in side.block.desc.ops}
    for pair in [*results, *firsts, *seconds]:
        outcome.largest = max(outcome.largest, _difference(pair, arrays, peer.tolerance))
    outcome.second += any(pair.tensor is not None for pair in seconds)


@dataclass(frozen=True)
class Pair:
    """Pair that should be equal: a Value of prograd and a tensor of PyTorch; None stands for zeros."""

    what: str
    value: Value | None
    tensor: torch.Tensor | None


class _Sides:
    """The tensors of a sample on both sides, and the block that grows on ours."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.block = Block()
        self.feeds: dict[str, np.ndarray] = {}
        self.pairs: list[Pair] = []
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # and the key's tensor, which keeps its number

    def tensor(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor of our own in place of a sample's."""
        if x.dtype not in KINDS:
            raise UnsupportedSampleError(f"tensors of {str(x.dtype).removeprefix('torch.')}")
        if id(x) not in self._known:
            own = x.detach().clone().requires_grad_(x.requires_grad)
            self._known[id(x)] = x, own
            self._pair(own, own.detach().numpy())
        return self._known[id(x)][1]

    def value(self, own: torch.Tensor) -> Value:
        [value] = [pair.value for pair in self.pairs if pair.tensor is own]
        assert value is not None
        return value

    def random(self, like: Pair) -> Pair:
        """Random numbers of that type."""
        assert like.tensor is not None
        array = np.asarray(self.rng.normal(size=tuple(like.tensor.shape)))
        return self._pair(torch.tensor(array, requires_grad=True), array, among=False)

    def _pair(self, own: torch.Tensor, array: np.ndarray, *, among: bool = True) -> Pair:
        name = f"x{len(self.feeds)}"
        self.feeds[name] = np.array(array, order="C")
        pair = Pair(name, self.block.define(name, TensorType(array.dtype.name, array.shape)), own)
        if among:
            self.pairs.append(pair)
        return pair


def _gradients(what: str, targets: Sequence[Pair], inputs: Sequence[Pair], seeds: Sequence[Pair]) -> list[Pair]:
    """For each input the gradient of the sum of the targets times the seeds, on both sides."""
    mine: list[Value | None] = [None] * len(inputs)
    ours = [(t.value, s.value) for t, s in zip(targets, seeds, strict=True) if t.value is not None]
    if ours and inputs:
        mine = gradients([t for t, _ in ours], [x.value for x in inputs if x.value is not None], [s for _, s in ours])
    theirs: list[torch.Tensor | None] = [None] * len(inputs)
    wanted = [(t.tensor, s.tensor) for t, s in zip(targets, seeds, strict=True)]
    wanted = [(t, s) for t, s in wanted if t is not None and t.requires_grad]
    if wanted and inputs:
        ends, weights = zip(*wanted, strict=True)
        theirs = list(
            torch.autograd.grad(ends, [x.tensor for x in inputs], weights, create_graph=True, allow_unused=True)
        )
    names = [f"{what} for {x.what}" for x in inputs]
    return [Pair(*each) for each in zip(names, mine, theirs, strict=True)]


def _difference(pair: Pair, arrays: dict[str, np.ndarray], tolerance: float) -> float:
    if pair.value is None and pair.tensor is None:
        return 0.0
    found = None if pair.value is None else arrays[pair.value.name]
    wanted = None if pair.tensor is None else pair.tensor.numpy(force=True)
    found = np.zeros_like(wanted) if found is None else found
    wanted = np.zeros_like(found) if wanted is None else wanted
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        raise Disagreement(f"{pair.what}: {found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}")
    if found.dtype.kind != "f":
        if not np.array_equal(found, wanted):
            raise Disagreement(f"{pair.what}: {found}, not {wanted}")
        return 0.0
    finite = np.isfinite(wanted)
    if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
        raise Disagreement(f"{pair.what}: {found[~finite][:5]} where PyTorch has {wanted[~finite][:5]}")
    off = np.where(finite, np.abs(np.where(finite, found, 0.0) - np.where(finite, wanted, 0.0)), 0.0)
    scale = max(1.0, float(np.max(np.abs(wanted), where=finite, initial=0.0)))
    largest = float(np.max(off, initial=0.0)) / scale
    if not largest <= tolerance:
        at = np.unravel_index(np.argmax(off), off.shape)
        raise Disagreement(
            f"{pair.what}: off by {largest:.1e} at {[int(i) for i in at]}: {found[at]}, not {wanted[at]}"
        )
    return largest


def _each(function: Callable[[torch.Tensor], Any], x: Any) -> Any:
    """The function of each tensor in nested lists, tuples and dicts; a dtype by its name."""
    if isinstance(x, torch.Tensor):
        return function(x)
    if isinstance(x, torch.dtype) and function.__name__ == "value":
        return str(x).removeprefix("torch.")
    if isinstance(x, dict):
        return {name: _each(function, item) for name, item in x.items()}
    if isinstance(x, list | tuple) and not isinstance(x, torch.Size):
        return type(x)(_each(function, item) for item in x)
    return x


def _flat(results: Any) -> list[Any]:
    return [y for part in results for y in _flat(part)] if isinstance(results, list | tuple) else [results]


def _refusing(function: Callable[[], Any]) -> Any:
    """Return the function's results; a prograd error is the reason to skip the sample."""
    try:
        return function()
    except (OpError, ExecutionError) as error:
        raise UnsupportedSampleError(f"prograd refuses: {_general(str(error))}") from None


def _general(sentence: str) -> str:
    """A sentence about an operator, without types and numbers."""
    name, _, rest = sentence.partition("(")
    said = rest.rpartition("): ")[2] if rest else sentence
    return f"{name}: {said}" if rest else sentence


def _shown(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    if isinstance(x, dict):
        return ", ".join(f"{name}={_shown(item)}" for name, item in x.items())
    if isinstance(x, list | tuple):
        return ", ".join(_shown(item) for item in x)
    return repr(x)
