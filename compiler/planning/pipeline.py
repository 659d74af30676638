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
from compiler.planning.recompute_scopes import recompute_scopes

PLANNING = PassTable(
    "plan",
    (
        Pass(
            plan_memory,
            requires={"ordered": "lifetimes depend on the order"},
            establishes={"planned": "each binding has the arena of a longer search"},
            settings={"thorough": True},
        ),
        Pass(
            recompute_scopes,
            requires={
                "ordered": "recomputed values are made right before their uses",
                "planned": "the arena before is reported",
            },
            establishes={"planned": "the arenas of changed blocks are those of their new ops"},
            invalidates={
                "merged": "recomputed ops are identical to the first ones",
            },
        ),
        Pass(
            keep_budget,
            requires={
                "ordered": "recomputed and spilled values are chosen by the times of their uses",
                "planned": "a block within the budget is not changed",
            },
            establishes={"within budget": "no arena exceeds the budget"},
            invalidates={
                "merged": "recomputed ops are identical to the first ones",
                "listed": "spilling and reloading add ops",
            },
        ),
        Pass(
            give_room,
            requires={
                "planned": "additional memory is relative to the smallest plan",
                "within budget": "additional memory is the rest of the budget; recomputed ops keep their order",
            },
            establishes={"planned": "the plan has the fewest waits of threads within the limit"},
        ),
        Pass(
            list_operators,
            requires={"within budget": "the list has all op types of the file, and no others"},
            establishes={"listed": "the file states the version of each operator"},
        ),
    ),
    given=PASSES.facts,
    promises={
        "planned": "a run allocates the planned arenas",
        "within budget": "the caller asked for the budget",
        "listed": "a reader can check that it has these operators",
    },
)


def passes_to_plan(passes: PassTable = PASSES, planning: PassTable = PLANNING, *, anew: bool) -> tuple[Pass, ...]:
    """Return the passes that plan a program: with `anew` all, after those that bind its blocks; else the first."""
    if not anew:
        return planning.only("plan_memory")
    return (*(each for each in passes if each.name != "plan_memory"), *planning)
