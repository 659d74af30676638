"""The passes that `plan` runs on a finished program, in order.

With a budget or for several threads, the program's blocks are first bound again by the passes of `compile`, which drops
the changes of an earlier plan to their ops. Otherwise the ops are not changed, and only their memory is planned.
"""

from __future__ import annotations

from compiler.passes.list_operators import list_operators
from compiler.passes.pass_table import Pass, PassTable
from compiler.passes.pipeline import PASSES
from compiler.passes.plan_memory import plan_memory
from compiler.planning.give_room import give_room
from compiler.planning.keep_budget import keep_budget

PLANNING = PassTable(
    "plan",
    (
        Pass(
            plan_memory,
            requires={"shared": "tensors that share memory are one buffer"},
            establishes={"planned": "each binding has the offsets that a longer search found"},
            settings={"thorough": True},
        ),
        Pass(
            keep_budget,
            requires={
                "ordered": "what is computed again, and what waits in a file, depends on when it is used",
                "planned": "a block that is small enough stays as it is",
            },
            establishes={"within budget": "no arena is larger than was asked"},
            invalidates={
                "merged": "ops that run again are identical to those that they repeat",
                "listed": "what moves values to a file and back are ops as well",
            },
        ),
        Pass(
            give_room,
            requires={
                "planned": "room is measured by what the tight plan takes",
                "within budget": "room is what the budget has left; ops that run again keep their order",
            },
            establishes={"planned": "by the plan in which threads wait least, within the limit"},
        ),
        Pass(
            list_operators,
            requires={"within budget": "every op of the file is listed, and no other"},
            establishes={"listed": "the file says which version of each operator it means"},
        ),
    ),
    given=PASSES.facts,
    promises={
        "planned": "a run allocates what the plan says",
        "within budget": "that is what was asked",
        "listed": "a reader has to know whether it has these operators",
    },
)


def passes_to_plan(passes: PassTable = PASSES, planning: PassTable = PLANNING, *, anew: bool) -> tuple[Pass, ...]:
    """Return the passes that plan a program: with `anew` all, after those that bind its blocks; else the first."""
    if not anew:
        return planning.only("plan_memory")
    return (*(each for each in passes if each.name != "plan_memory"), *planning)
