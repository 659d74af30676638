"""Training steps within half of their plan: what recomputation reaches, and what it costs.

    python benchmarks/budgets.py               a table
    python benchmarks/budgets.py --markdown    for docs/memory.md

Arenas in MiB. The budget is half of the plan that `compile` gives, or the working set of the op with the largest, if
that is more: no plan goes below what one op reads, writes and needs beside. `cost` is in operations, not in time.
"""

import argparse
from time import process_time

from networks import NETWORKS

from compiler.bound_blocks import bound_blocks
from compiler.costs import operations_of
from compiler.plan_memory import plan_of
from compiler.rematerialise import lower
from compiler.repetition import schedule_of
from compiler.share_memory import share_in_block
from compiler.step_graph import step_graph
from compiler.write_schedule import write_schedule
from runtime.memory import THOROUGH

MIB = 2**20
COLUMNS = ("plan", "half", "largest op", "budget", "arena", "arena / budget", "cost", "repeated", "seconds")


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
            row = [name, str(batch), *measured(build(), batch)]
            print("| " + " | ".join(row) + " |" if markdown else "".join(f"{word:>15}" for word in row))


def measured(program, batch):
    """The columns for one program."""
    block = bound_blocks(program.compile(n=batch).desc)[0]
    plan = plan_of(block, THOROUGH).arena_bytes
    graph, order, costs = step_graph(block), list(range(len(block.ops))), operations_of(block)
    largest = max(graph.working_set(order, at) for at in order)
    budget = max(plan // 2, largest)
    start = process_time()
    found = lower(schedule_of(graph), costs, budget)
    write_schedule(block, found)
    share_in_block(block)
    arena = plan_of(block, THOROUGH).arena_bytes
    seconds = process_time() - start
    repeated = sum(1 for op in block.ops if op.recompute_of)
    sizes = [f"{nbytes / MIB:.2f}" for nbytes in (plan, plan / 2, largest, budget, arena)]
    return [*sizes, f"{arena / budget:.3f}", f"{found.cost(costs) / sum(costs):.3f}", str(repeated), f"{seconds:.1f}"]


if __name__ == "__main__":
    main()
