"""Training steps within half of their plan: what recomputation reaches, alone and with a file, and what it costs.

    python benchmarks/budgets.py               a table
    python benchmarks/budgets.py --markdown    for docs/memory.md

Arenas in MiB. The budget is half of the plan that `compile` gives, or the working set of the op with the largest, if
that is more: no plan goes below what one op reads, writes and takes as scratch. Where it cannot be met, the arena is
the smallest that was found. `cost` is in operations, not in time; `moved` goes to the file or comes back in a step.
"""

import argparse
import re
from time import process_time

from cases.networks import NETWORKS

from compiler.analyses.step_graph import step_graph
from compiler.errors import LimitError
from compiler.passes.plan_memory import plan_of
from compiler.planning.keep_budget import plan_within
from prograd_proto import type_of
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.files import copy_of
from runtime.placement import THOROUGH
from runtime.step.arithmetic import operations_of

MIB = 2**20
COLUMNS = ("plan", "half", "largest op", "budget", "with", "arena / budget", "cost", "repeated", "moved", "seconds")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/memory.md")
    markdown = parser.parse_args().markdown
    head = ["network", "batch", *COLUMNS]
    print("| " + " | ".join(head) + " |" if markdown else "".join(f"{word:>15}" for word in head))
    if markdown:
        print("|" + " --- |" * len(head))
    for name, build in NETWORKS.items():
        for batch in (1, 32):
            for columns in measured(build(), batch):
                row = [name, str(batch), *columns]
                print("| " + " | ".join(row) + " |" if markdown else "".join(f"{word:>15}" for word in row))


def measured(program, batch):
    """Two rows of columns for one program: without a file, and with one."""
    block = BlockAnalyses(program.compile(n=batch).desc).bound[0].desc
    plan = plan_of(BlockAnalysis(block), THOROUGH).arena_bytes
    graph, order = step_graph(BlockAnalysis(block)), list(range(len(block.ops)))
    largest = max(graph.working_set(order, at) for at in order)
    budget = max(plan // 2, largest)
    sizes = [f"{nbytes / MIB:.2f}" for nbytes in (plan, plan / 2, largest, budget)]
    for way in ("recomputing", "a file too"):
        trial = copy_of(block)
        start = process_time()
        try:
            tight = plan_of(BlockAnalysis(trial), THOROUGH)
            arena, found = (
                plan_within(BlockAnalysis(trial), tight, budget, spilling=way == "a file too").arena_bytes,
                described(trial),
            )
        except LimitError as error:
            arena, found = int(re.search(r"has (\d+) bytes", str(error))[1]), ["", "", ""]
        yield [*sizes, way, f"{arena / budget:.3f}", *found, f"{process_time() - start:.1f}"]


def described(block):
    """Return the cost of keeping the budget: operations, rematerialised ops, moved bytes."""
    costs, types = operations_of(BlockAnalysis(block)), {tensor.name: type_of(tensor) for tensor in block.tensors}
    again = [cost for cost, op in zip(costs, block.ops, strict=True) if op.recompute_of]
    moved = sum(types[op.outputs[0]].nbytes for op in block.ops if op.type in ("spill", "reload"))
    return [f"{sum(costs) / (sum(costs) - sum(again)):.3f}", str(len(again)), f"{moved / MIB:.2f}"]


if __name__ == "__main__":
    main()
