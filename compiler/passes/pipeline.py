"""The passes that `compile` runs, in order.

Gradients and updates are appended while the program is built, because users look at them and build on them. The passes
change the representation of the program, never its results.

Beside each pass are the facts that it requires, establishes and invalidates, with the reasons. A wrong order is refused
when this file is imported.
"""

from __future__ import annotations

from compiler.passes.batch_products import batch_products
from compiler.passes.bind_dimensions import bind_dimensions
from compiler.passes.compute_on_codes import compute_on_codes
from compiler.passes.eliminate_dead_ops import eliminate_dead_ops
from compiler.passes.fake_quantize import fake_quantize
from compiler.passes.fold_constants import fold_constants
from compiler.passes.hoist_invariants import hoist_invariants
from compiler.passes.leave_frozen import leave_frozen
from compiler.passes.list_operators import list_operators
from compiler.passes.merge_identical import merge_identical
from compiler.passes.mixed_precision import mixed_precision
from compiler.passes.order_ops import order_ops
from compiler.passes.pass_table import Pass, PassTable
from compiler.passes.plan_memory import plan_memory
from compiler.passes.recompute_in_loops import recompute_in_loops
from compiler.passes.simplify import simplify
from compiler.passes.split_batch import split_batch
from compiler.passes.use_inference_forms import use_inference_forms

PASSES = PassTable(
    "compile",
    (
        Pass(
            use_inference_forms,
            establishes={"inference forms": "the ops of evaluate and predict have their inference forms"},
            invalidates={"nothing dead": "operands that only the training form reads remain"},
        ),
        Pass(
            eliminate_dead_ops,
            requires={"inference forms": "the operands of the training form become dead"},
            establishes={"nothing dead": "gradient rules append gradients without readers; now each op has a reader"},
        ),
        Pass(
            fake_quantize,
            requires={
                "inference forms": "entries that do not train have running statistics, which scales take",
                "nothing dead": "a product that nothing reads needs no range",
            },
            establishes={"with codes": "the source blocks have codes in place of factors, if it is asked for"},
        ),
        Pass(
            mixed_precision,
            requires={
                "with codes": "numbers of codes may be rounded as other operands are",
                "inference forms": "entries that do not train round the operands of the ops that they run",
                "nothing dead": "a product that nothing reads needs no copies",
            },
            establishes={"rounded": "the source blocks have the casts of mixed precision, if it is asked for"},
        ),
        Pass(
            bind_dimensions,
            requires={
                "rounded": "bound blocks copy the casts",
                "inference forms": "bound blocks copy the source blocks",
                "nothing dead": "dead ops would be copied too",
            },
            establishes={
                "bound": "the blocks that run are static copies of the source blocks, which remain as built",
                "as built": "the blocks that run have the ops that the builder appended",
            },
            invalidates={"planned": "new blocks have no memory plans"},
        ),
        Pass(
            leave_frozen,
            requires={
                "bound": "only bound blocks lose ops; thawing needs the source blocks",
                "as built": "sums of squared gradients are recognised by their appended ops",
            },
            establishes={"nothing frozen": "no block that runs trains a frozen parameter"},
        ),
        Pass(
            split_batch,
            requires={
                "bound": "the rows of a shard are a number",
                "nothing frozen": "frozen parameters are recognised by the ops as built; their gradients need no sums",
            },
            establishes={"split": "a step computes its batch shard by shard"},
            invalidates={"as built": "ops are copied for each shard"},
        ),
        Pass(
            hoist_invariants,
            requires={
                "bound": "a loop of no rows is known when symbols have sizes",
                "split": "loops of all shards are hoisted, each by itself",
                "nothing frozen": "gradients of frozen parameters need not be hoisted",
            },
            establishes={"hoisted": "no loop computes in each iteration what it could compute once"},
            invalidates={"as built": "ops move out of loops"},
        ),
        Pass(
            batch_products,
            requires={
                "bound": "stacks have sizes",
                "nothing frozen": "gradients of frozen parameters need no products",
                "hoisted": "a product of a shared tensor is known to be one",
            },
            establishes={"batched": "products that no carry waits for are made for all iterations at once"},
            invalidates={"as built": "ops move out of loops"},
        ),
        Pass(
            recompute_in_loops,
            requires={"batched": "products of all iterations need the stacks that they read"},
            establishes={"stacks chosen": "loops store what their gradients read, or what that is computed from"},
            invalidates={"as built": "ops are copied to other loops"},
        ),
        Pass(
            fold_constants,
            requires={
                "bound": "the number of elements is known when symbols have sizes",
                "stacks chosen": "recomputed ops may have constant operands",
                "batched": "ops that leave a loop may have constant operands there",
                "nothing frozen": "updates of frozen parameters need not be folded",
            },
            establishes={"folded": "ops of constant operands are constants"},
            invalidates={"as built": "ops are replaced by constants"},
        ),
        Pass(
            compute_on_codes,
            requires={"folded": "scales and zero points are known if they are constants"},
            establishes={"on codes": "no op moves numbers of codes, and long chains of them are tables"},
            invalidates={"as built": "ops are replaced by those of codes"},
        ),
        Pass(
            simplify,
            requires={
                "folded": "a factor may be folded to 1, and is then removed",
                "on codes": "moves of codes follow each other",
            },
            establishes={"simplified": "no op returns a tensor that already exists"},
            invalidates={"as built": "ops are removed or replaced by cheaper ones"},
        ),
        Pass(
            merge_identical,
            requires={"simplified": "removing ops in between makes others identical"},
            establishes={"merged": "each value is computed once; later passes add and remove no op"},
            invalidates={"as built": "ops are removed"},
        ),
        Pass(
            order_ops,
            requires={
                "bound": "the memory of an order depends on sizes",
                "nothing frozen": "removed ops need no position",
                "merged": "all remaining ops are ordered, and only those",
            },
            establishes={"ordered": "the ops run in the order of the list"},
            invalidates={"planned": "lifetimes depend on the order"},
        ),
        Pass(
            list_operators,
            requires={"merged": "the list has all op types of the file, and no others"},
            establishes={"listed": "the file states the version of each operator"},
        ),
        Pass(
            plan_memory,
            requires={
                "nothing dead": "the read of a dead op would prevent an update in place",
                "ordered": "lifetimes depend on the order",
            },
            establishes={"planned": "each binding has the bytes of its arena"},
        ),
    ),
    promises={
        "inference forms": "entries that do not train compute inference forms",
        "bound": "a step has static sizes",
        "listed": "a reader can check that it has these operators",
    },
)
