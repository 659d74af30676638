"""The passes that `compile` runs, in order.

Gradients and updates are appended while the program is built, because users look at them and build on them. The passes
change the representation of the program, never its results.

Beside each pass are the facts that it requires, establishes and invalidates, with the reasons. A wrong order is refused
when this file is imported.
"""

from __future__ import annotations

from compiler.passes.bind_dimensions import bind_dimensions
from compiler.passes.eliminate_dead_ops import eliminate_dead_ops
from compiler.passes.fold_constants import fold_constants
from compiler.passes.leave_frozen import leave_frozen
from compiler.passes.list_operators import list_operators
from compiler.passes.merge_identical import merge_identical
from compiler.passes.order_ops import order_ops
from compiler.passes.pass_table import Pass, PassTable
from compiler.passes.plan_memory import plan_memory
from compiler.passes.share_memory import share_memory
from compiler.passes.simplify import simplify
from compiler.passes.use_inference_forms import use_inference_forms

PASSES = PassTable(
    "compile",
    (
        Pass(
            use_inference_forms,
            establishes={"inference forms": "evaluate and predict stop being copies of the training block"},
            invalidates={"nothing dead": "what only the training form reads is left"},
        ),
        Pass(
            eliminate_dead_ops,
            requires={"inference forms": "the operands that only the training form reads die with it"},
            establishes={"nothing dead": "rules state every gradient; now each op has a reader"},
        ),
        Pass(
            bind_dimensions,
            requires={"inference forms": "bound blocks are copies", "nothing dead": "bound blocks are copies"},
            establishes={
                "bound": "blocks that run are static copies of the source blocks, which stay as they were built",
                "as built": "the ops of blocks that run are those that were appended",
            },
            invalidates={"planned": "new blocks have no plans"},
        ),
        Pass(
            leave_frozen,
            requires={
                "bound": "source blocks stay whole: they keep what thawing needs",
                "as built": "sums of squares are known by the ops that were appended for them",
            },
            establishes={"nothing frozen": "what runs trains no frozen parameter"},
        ),
        Pass(
            fold_constants,
            requires={
                "bound": "a number of elements is known when its symbols have sizes",
                "nothing frozen": "what trains a frozen parameter need not be computed here either",
            },
            establishes={"folded": "what every step would compute alike is a constant"},
            invalidates={"as built": "ops become constants"},
        ),
        Pass(
            simplify,
            requires={"folded": "what is folded to 1 is no factor"},
            establishes={"simplified": "no op gives what is there already"},
            invalidates={"as built": "ops go, and become cheaper ones"},
        ),
        Pass(
            merge_identical,
            requires={"simplified": "ops become identical when what is between them goes"},
            establishes={"merged": "what is computed is computed once; no op comes or goes after this"},
            invalidates={"as built": "ops go"},
        ),
        Pass(
            order_ops,
            requires={
                "bound": "what an order needs is a matter of sizes",
                "nothing frozen": "what is not computed needs no place",
                "merged": "every op that is left has its place, and no other",
            },
            establishes={"ordered": "the ops run in the order of the list"},
            invalidates={"shared": "what is dead depends on the order"},
        ),
        Pass(
            share_memory,
            requires={
                "bound": "bound blocks are what runs",
                "nothing dead": "a dead op's read would keep an update from being in place",
                "simplified": "reads of what is left out become later reads of something else",
                "merged": "reads of all identical ops become reads of the first",
                "ordered": "what is dead depends on the order",
            },
            establishes={"shared": "views and what is written over an operand are marked"},
            invalidates={"planned": "tensors that share memory are one buffer"},
        ),
        Pass(
            list_operators,
            requires={"merged": "every op of the file is listed, and no other"},
            establishes={"listed": "the file says which version of each operator it means"},
        ),
        Pass(
            plan_memory,
            requires={"shared": "tensors that share memory are one buffer"},
            establishes={"planned": "each binding has the offsets of its buffers"},
        ),
    ),
    promises={
        "inference forms": "what predicts is not what trains",
        "bound": "a step has sizes",
        "listed": "a reader has to know whether it has these operators",
    },
)
