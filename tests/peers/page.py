"""docs/compared.md: what was compared, what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Protocol

from peers.spelling import Peer
from peers.table import NOT_COMPARED, UPDATES
from registry import OPS


class Outcome(Protocol):
    """Fields of a comparison's outcome that the page uses."""

    compared: int
    second: int
    left_out: Counter[str]


class Difference(Protocol):
    """Fields of two training runs that the page uses."""

    loss: float
    parameters: float


HEAD = """\
# Compared with PyTorch

Made by `make compared` with PyTorch {version} on {date}. The comparison is an optional group of tests, which
`make test` does not collect; it takes some minutes:

    pip install -e ".[test,frameworks]" && pytest tests/peers

PyTorch's own tests have samples for its functions ("OpInfo"). `tests/peers/` spells these functions with operators
of prograd and compares on each sample, in float64, the values, the first gradients for random gradients of the
results, and the gradients of their random sum. Two arrays agree if no difference is above 1e-9 of the largest number,
or above 1e-9 if that number is below 1; where there is another bound, the reason is beside it. A function without
samples has ours, "our inputs". PyTorch is asked for samples in float64 and for no others.

{functions} lines compare {compared} samples, {second} of them with second gradients; {left_out} are left out, with the
reason.

## Functions

| operators | PyTorch's function | samples | with second gradients | left out, and other remarks |
| --- | --- | ---: | ---: | --- |
"""

DIFFERENT = """
## Where prograd differs on purpose

* `softplus` is exact where PyTorch takes its operand for it; the comparison does so too.
* `lp_pool` takes absolute values, and the sum of what lies under a window that is cut off.
* `local_response_norm` has ONNX's channels for even sizes.
* `conv_transpose` takes an `output_padding` below the stride, PyTorch below the stride or the dilation.
* Indices count from 0; negative ones stop the run. Masks do not select: the number of elements would be data.
* `einsum` is NumPy's: an output without "..." does not sum over its axes.
* `batch_norm` has the population's variance in its running statistics, as ONNX; PyTorch's is that of a sample.
* Equal maxima share the gradient of `max` evenly, also along an axis, as with PyTorch's `amax`; its `max` gives all
  of it to the first.
* `binary_cross_entropy` has the gradient 0 where a logarithm is cut off at -100; PyTorch's is a large number.
* The mean of `cross_entropy` and `nll` over no rows, because all have the label `ignored`, is 0; PyTorch's is NaN.
* Where bounds of `clip` meet, what is below them has its gradient in the lower bound; in PyTorch it has none.
* At kinks the first gradient is PyTorch's. The second may not be: that of `elu` at 0 and of `huber` at `delta` is the
  one of the side that the first one takes, PyTorch's is 0. Where PyTorch's second gradient is NaN, at norms and
  deviations that are 0 and at 0 ** 0, ours is finite.
* The second gradient of `pow` for an exponent of 0 has the term a ** (b - 1) that PyTorch leaves out.
"""


def page(
    version: str,
    date: str,
    outcomes: Sequence[tuple[Peer, Outcome]],
    differences: Mapping[str, tuple[Difference, float]],
) -> str:
    """The page, of all outcomes and of the largest differences of training runs with their limits."""
    every = [outcome for _, outcome in outcomes]
    head = HEAD.format(
        version=version,
        date=date,
        functions=len(every),
        compared=sum(outcome.compared for outcome in every),
        second=sum(outcome.second for outcome in every),
        left_out=sum(outcome.left_out.total() for outcome in every),
    )
    lines = [line(peer, outcome) for peer, outcome in outcomes]
    return head + "\n".join([*lines, DIFFERENT.rstrip(), *_others(peer for peer, _ in outcomes), *_runs(differences)])


def line(peer: Peer, outcome: Outcome) -> str:
    """A row of the table."""
    remarks = [f"{count}: {reason.replace('|', '/')}" for reason, count in sorted(outcome.left_out.items())]
    bound = f"within {peer.tolerance:g}: " if peer.tolerance != 1e-9 else ""
    remarks += [f"{bound}{peer.note}"] if peer.note else []
    function = f"`{peer.function}`" + (f", {peer.variant}" if peer.variant else "")
    function += ", our inputs" if peer.inputs is not None else ""
    cells = [_names(peer.operators), function, str(outcome.compared), str(outcome.second), "; ".join(remarks)]
    return f"| {' | '.join(cells)} |"


def _others(peers: Iterable[Peer]) -> Iterator[str]:
    compared = {name for peer in peers for name in peer.operators} | {*NOT_COMPARED, *UPDATES}
    yield from ("", "## Not compared", "")
    yield from (f"* `{name}`: {reason}." for name, reason in NOT_COMPARED.items())
    yield from ("", "Without a gradient, and so held to NumPy by the other tests alone:")
    rest = [name for name in OPS if OPS[name].gradient_rule is None and name not in compared]
    yield from ("", fill(f"{_names(sorted(rest))}.", 120, break_on_hyphens=False))


def _runs(differences: Mapping[str, tuple[Difference, float]]) -> Iterator[str]:
    yield from ("", "## Training runs", "")
    yield "200 steps in float64 from equal parameters with equal batches, executed by the runtime: the largest"
    yield "difference of a loss, and of a parameter at the end relative to its largest element. A last bit that differs"
    yield "may grow with every step, most of all in a recurrent network."
    yield f"The updates that are compared: {_names(UPDATES)}."
    yield from ("", "| run | of a loss | of a parameter | must be below |", "| --- | ---: | ---: | ---: |")
    for name, (found, limit) in differences.items():
        yield f"| {name} | {found.loss:.0e} | {found.parameters:.0e} | {limit:g} |"
    yield ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
