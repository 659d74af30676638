"""Times every operator that has a counterpart in PyTorch against it, forward and backward, on one thread each.

    python benchmarks/families.py                        all of them, by the kernels of the reference engine
    python benchmarks/families.py conv pool              families and operators of which one of the words is a part
    python benchmarks/families.py --engine native        by compiled code

Needs PyTorch, which prograd does not. Both get the same numbers, PyTorch with channels first where that is its
layout, and their results are compared before they are timed. Forward is what the operator appends to a block, backward
what its gradient appends after that, bound as a program is. HOST are those of which the native engine leaves an op to
its NumPy kernel. PyTorch's is `torch.autograd.grad` of a kept graph.
A ratio is how many times as long prograd takes, as the median over alternating runs of the processor's time, in which
other processes have no part. SLOW are those above 5.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import thread_time
from typing import Any, NamedTuple

from runtime.blas import ask_for_one_thread

ask_for_one_thread()

import numpy as np  # noqa: E402 - BLAS counts its threads when it is loaded
import torch  # noqa: E402 - likewise
from cases.torch_cases import FAMILIES, Case  # noqa: E402 - likewise

from compiler.train.backward import gradients  # noqa: E402 - needs NumPy
from prograd_proto import TensorType  # noqa: E402 - needs NumPy
from prograd_proto import program_pb2 as pb  # noqa: E402 - needs NumPy
from prograd_proto.dtypes import FLOATS  # noqa: E402 - needs NumPy
from registry import Block, Value  # noqa: E402 - needs NumPy
from runtime.engines.native.amx import refused_tiles  # noqa: E402 - needs NumPy
from runtime.engines.native.cpu import this_machine  # noqa: E402 - needs NumPy
from runtime.engines.native.step import bind_code  # noqa: E402 - needs NumPy
from runtime.engines.native.step_code import StepOptions, compiled_step, lowered  # noqa: E402 - needs NumPy
from runtime.engines.reference.bind import bind  # noqa: E402 - needs NumPy
from runtime.memory.aligned import aligned_bytes  # noqa: E402 - needs NumPy

SECONDS = float(os.environ.get("SECONDS_PER_ROW", "0.2"))
"""Seconds of measurement per row."""

LIMIT = 5.0

Call = Callable[[], object]


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="families and operators of which one of the words is a part")
    parser.add_argument("--engine", choices=("reference", "native"), default="reference")
    given = parser.parse_args()
    torch.set_num_threads(1)
    bound = bound_natively if given.engine == "native" else bound_to_kernels
    summary: list[str] = []
    for family, cases in FAMILIES.items():
        chosen = [case for case in cases if not given.words or any(word in (family, case.name) for word in given.words)]
        if not chosen:
            continue
        print(f"\n### {family}\n")
        print("| operator | operands | forward | ms | backward | ms |  |")
        print("| --- | --- | ---: | ---: | ---: | ---: | --- |")
        ratios = [ratio for case in chosen for ratio in row(case, bound)]
        slow = sum(ratio > LIMIT for ratio in ratios)
        summary.append(f"| {family} | {len(ratios)} | {median(ratios):.1f} | {max(ratios):.1f} | {slow or ''} |")
    print("\n| family | rows | median | worst | above 5 |\n| --- | ---: | ---: | ---: | ---: |")
    print("\n".join(summary))


class Bound(NamedTuple):
    """A call of some ops, and the arrays of what they compute and read."""

    run: Call
    arrays: Mapping[str, np.ndarray]
    host: bool = False


Bind = Callable[[Block, int, Sequence[str], Sequence[np.ndarray]], Bound]


def row(case: Case, bind: Bind) -> list[float]:
    """Print a row, and give its ratios."""
    found = [calls for calls in (forward(case, bind), backward(case, bind)) if calls]
    pairs = [alternate(ours.run, theirs) for ours, theirs in found]
    ratios = [ours / theirs for ours, theirs in pairs]
    cells = [f"{ratio:.2f} | {ours * 1e3:.3f}" for ratio, (ours, _) in zip(ratios, pairs, strict=True)]
    cells += ["|"] * (2 - len(cells))
    marks = ["SLOW"] * (max(ratios) > LIMIT) + ["HOST"] * any(ours.host for ours, _ in found)
    print(f"| {case.name} | {case.shown} | {' | '.join(cells)} | {' '.join(marks)} |", flush=True)
    return ratios


def forward(case: Case, bind: Bind) -> tuple[Bound, Call]:
    block, values = block_of(case)
    made = as_list(case.ours(*values))
    ours = bind(block, 0, [value.name for value in made], case.operands)
    tensors = [torch.from_numpy(x) for x in case.theirs_operands()]
    ours.run()
    if case.compared:
        theirs = as_list(case.theirs(*tensors))
        compare(case, [case.turned(ours.arrays[value.name]) for value in made], theirs)

    def other() -> None:
        with torch.no_grad():
            case.theirs(*tensors)

    return ours, other


def backward(case: Case, bind: Bind) -> tuple[Bound, Call] | None:
    if not case.differentiated:
        return None
    block, values = block_of(case)
    made = [value for value in as_list(case.ours(*values)) if value.dtype in FLOATS]
    first = len(block.desc.ops)
    seeds = [block.define(f"seed{i}", value.type) for i, value in enumerate(made)]
    inputs = [values[i] for i in case.differentiated]
    found = gradients(made, inputs, seeds)
    shares = [np.random.default_rng(1).normal(size=seed.type.static_shape).astype(seed.dtype) for seed in seeds]
    ours = bind(block, first, [dx.name for dx in found if dx is not None], [*case.operands, *shares])
    tensors = [torch.from_numpy(x) for x in case.theirs_operands()]
    leaves = [tensors[i].requires_grad_() for i in case.differentiated]
    results = [y for y in as_list(case.theirs(*tensors)) if y.requires_grad]
    seeds_there = [torch.from_numpy(np.array(case.turned(share), order="C")) for share in shares]

    def other() -> Sequence[Any]:
        return torch.autograd.grad(results, leaves, seeds_there[: len(results)], retain_graph=True)

    ours.run()
    if case.compared:
        arrays = [
            case.turned(ours.arrays[v.name], i)
            for v, i in zip(found, case.differentiated, strict=True)
            if v is not None
        ]
        compare(case, arrays, other())
    return ours, other


def block_of(case: Case) -> tuple[Block, list[Value]]:
    """A block with the case's operands as feeds."""
    block = Block()
    return block, [block.define(f"x{i}", TensorType(x.dtype.name, x.shape)) for i, x in enumerate(case.operands)]


def bound_to_kernels(block: Block, first: int, wanted: Sequence[str], feeds: Sequence[np.ndarray]) -> Bound:
    """The ops from the given one on as one call, once those before have run; and every array.

    `feeds` are what the tensors hold that no op defines, in their order.
    """
    program = pb.ProgramDesc(blocks=[block.desc])
    program.entries.add(name="train").bindings.add(block=0)
    [desc] = program.blocks
    made = {name for op in desc.ops for name in op.outputs}
    names = [tensor.name for tensor in desc.tensors if tensor.name not in made]
    for name in names:
        desc.parameters.add(tensor=name, feed=name)
    kept = [*names, *wanted, *(name for op in desc.ops[:first] for name in op.outputs)]
    whole = bind(desc, {}, pinned=kept)
    for name, array in zip(names, feeds, strict=True):
        np.copyto(whole.arrays[name], array)
    ids = {op.id for op in desc.ops[:first]}
    for op in whole.ops:
        if op.desc.id in ids:
            op.call()
    calls = [op.call for op in whole.ops if op.desc.id not in ids]

    def run() -> None:
        for call in calls:
            call()

    return Bound(run, whole.arrays)


def bound_natively(block: Block, first: int, wanted: Sequence[str], feeds: Sequence[np.ndarray]) -> Bound:
    """The same by compiled code of one thread; kernels of the reference engine compute what the ops before give."""
    before = bound_to_kernels(block, first, wanted, feeds)
    desc = pb.BlockDesc(ops=block.desc.ops[first:])
    made = {name for op in desc.ops for name in op.outputs}
    read = {name for op in desc.ops for name in op.inputs}
    desc.tensors.extend(tensor for tensor in block.desc.tensors if tensor.name in made | read)
    states = {tensor.name: before.arrays[tensor.name].copy() for tensor in desc.tensors if tensor.name not in made}
    for name in states:
        desc.parameters.add(tensor=name, state=name)
    refused_tiles()  # asks the system for tiles of AMX, where the processor has them
    pinned = tuple(name for name in wanted if name in made)
    step = lowered(desc, this_machine(), StepOptions(pinned=pinned))
    code, loaded = compiled_step(step)
    compiled = bind_code(code, loaded, step.nodes.block.desc, states, aligned_bytes(max(step.memory.arena_bytes, 64)))
    arrays = {**before.arrays, **{name: compiled.arrays[name] for name in pinned}}
    return Bound(compiled, arrays, any(group.is_host for group in step.groups))


def compare(case: Case, ours: Sequence[np.ndarray], theirs: Sequence[Any]) -> None:
    """Stop unless both have computed the same, up to rounding."""
    for y, other in zip(ours, theirs, strict=True):
        expected = other.detach().numpy()
        scale = max(1e-6, float(np.abs(expected).max(initial=0))) if expected.dtype.kind == "f" else 1
        if y.shape != expected.shape or not np.allclose(y, expected, rtol=2e-3, atol=2e-3 * scale, equal_nan=True):
            raise SystemExit(f"{case.name} {case.shown}: prograd and PyTorch differ")


def alternate(one: Call, other: Call) -> tuple[float, float]:
    """The median seconds of both calls, run in turns."""
    seconds: tuple[list[float], list[float]] = ([], [])
    stop = thread_time() + SECONDS
    with np.errstate(all="ignore"):
        while thread_time() < stop or len(seconds[0]) < 10:
            for call, times in zip((one, other), seconds, strict=True):
                start = thread_time()
                call()
                times.append(thread_time() - start)
    return median(seconds[0]), median(seconds[1])


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


if __name__ == "__main__":
    main()
