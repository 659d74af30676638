"""Measure the effect of each technique on the memory of a training step, beside the methods of older planners.

    python benchmarks/memory.py               a table
    python benchmarks/memory.py --markdown    for docs/memory.md

Arenas in MiB; states, that is parameters, slots and statistics, lie outside. Every row is one program:

* `apart` has a place for every buffer, as if nothing were freed.
* `deferred` frees, makes views, and runs the ops as they were written: forward, backward, then all updates.
* `shared` also writes results over operands that die.
* `ordered` also runs every op when it needs the least: a gradient dies in its update. This is what `compile` gives;
  the bound is what no placement of that order can go below.
* `separate` is `deferred` with an arena for each kind of buffer, planned alone, as onert has them: the values of the
  forward pass, gradients of activations, gradients of parameters, scratch.
* `exact size` is the lifetimes of `ordered`, but memory is reused only by a buffer of the same size, as NNTrainer's
  OptimizedV1Planner does.
"""

import argparse
from functools import partial

from cases.networks import NETWORKS, resnet18

from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.files import copy_of
from runtime.engines.reference.target import REFERENCE
from runtime.placement import THOROUGH, aligned, place
from runtime.step import places_of

MIB = 2**20
NOTHING_IN_PLACE = REFERENCE._replace(in_place=lambda op_type: ())
COLUMNS = ("apart", "deferred", "shared", "ordered", "bound", "separate", "exact size", "ordered / deferred")
REWRITES = [each for each in PASSES.before("order_ops") if each in PASSES.since("bind_dimensions")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/memory.md")
    markdown = parser.parse_args().markdown
    networks = {**NETWORKS, "ResNet-18, 224 x 224": partial(resnet18, size=224)}
    head = ["network", "batch", *COLUMNS]
    print(
        "| " + " | ".join(head) + " |"
        if markdown
        else f"{head[0]:22}{head[1]:>6}" + "".join(f"{c:>12}" for c in COLUMNS)
    )
    if markdown:
        print("|" + " --- |" * len(head))
    for name, build in networks.items():
        for batch in (1, 32):
            row = arenas(build(), batch)
            values = [f"{row[column] / MIB:.2f}" for column in COLUMNS[:-1]]
            values.append(f"{row['ordered'] / row['deferred']:.3f}")
            line = " | ".join([name, str(batch), *values])
            print(f"| {line} |" if markdown else f"{name:22}{batch:6}" + "".join(f"{value:>12}" for value in values))


def arenas(program, batch):
    """The bytes of each column for one program."""
    desc = program.compile(n=batch).desc
    written, ordered = training(desc), training(desc, "order_ops")
    deferred, shared, best = (
        places_of(BlockAnalysis(block), target, effort=THOROUGH)
        for block, target in ((written, NOTHING_IN_PLACE), (written, REFERENCE), (ordered, REFERENCE))
    )
    return {
        "apart": sum(aligned(buffer.nbytes) for buffer, _ in deferred.in_arena),
        "deferred": deferred.arena_bytes,
        "shared": shared.arena_bytes,
        "ordered": best.arena_bytes,
        "bound": best.lower_bound,
        "separate": separate(written, [buffer for buffer, _ in deferred.in_arena]),
        "exact size": exact_size([buffer for buffer, _ in best.in_arena]),
    }


def training(desc, *passes):
    """A copy of the training block, bound anew, with these passes alone after those that rewrite it."""
    program = copy_of(desc)
    run_passes(program, [*REWRITES, *PASSES.only(*passes)])
    return copy_of(BlockAnalyses(program).bound[0].desc)


def separate(block, buffers):
    """The sum of the arenas of each kind of buffer."""
    kinds = {name: op.stage for op in block.ops for name in op.outputs}
    kinds |= {parameter.tensor: pb.STAGE_FORWARD for parameter in block.parameters}
    by_kind = {}
    for buffer in buffers:
        by_kind.setdefault(kinds.get(buffer.name, "scratch"), []).append(buffer)
    return sum(place(some, THOROUGH).arena_bytes for some in by_kind.values())


def exact_size(buffers):
    """The memory of slots that only buffers of one size share, in the order in which buffers begin to live."""
    slots = {}
    for buffer in sorted(buffers, key=lambda buffer: (buffer.start, buffer.stop)):
        ends = slots.setdefault(aligned(buffer.nbytes), [])
        free = next((i for i, end in enumerate(ends) if end <= buffer.start), None)
        if free is None:
            ends.append(buffer.stop)
        else:
            ends[free] = buffer.stop
    return sum(size * len(ends) for size, ends in slots.items())


if __name__ == "__main__":
    main()
