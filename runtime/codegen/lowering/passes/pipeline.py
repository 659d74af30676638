"""The passes of lowering, in order.

Beside each pass are the facts that it requires, establishes and invalidates, with the reasons. A wrong order is refused
when this file is imported. A block inside an op has each pass before the block around it.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.lowering.passes.chunk import chunk
from runtime.codegen.lowering.passes.delay_updates import delay_updates
from runtime.codegen.lowering.passes.fuse import fuse
from runtime.codegen.lowering.passes.join_layers import join_layers
from runtime.codegen.lowering.passes.merge_bottlenecks import merge_bottlenecks
from runtime.codegen.lowering.passes.order_additions import order_additions
from runtime.codegen.lowering.passes.partition import partition
from runtime.codegen.lowering.passes.pass_table import Pass, PassTable
from runtime.codegen.lowering.passes.place import place
from runtime.codegen.lowering.passes.prepack import prepack
from runtime.codegen.lowering.passes.read import read
from runtime.codegen.lowering.passes.recompute import recompute
from runtime.codegen.lowering.passes.resolve_views import resolve_views
from runtime.codegen.lowering.passes.schedule import schedule
from runtime.codegen.lowering.passes.separate import separate

PASSES: Final = PassTable(
    "native",
    (
        Pass(
            read,
            establishes={"nodes": "ops have lowering rules; constants and decompositions are resolved"},
        ),
        Pass(
            order_additions,
            requires={"nodes": "a product is known by its lowering rule"},
            establishes={"additions": "the order in which each product adds follows from the program alone"},
        ),
        Pass(
            resolve_views,
            requires={
                "nodes": "the rule of a reader decides which strides it can read",
                "additions": "an operand that is not copied has other strides, which must not change any bit",
            },
            establishes={"views": "ops that only pick elements are gone where their readers can do it"},
            invalidates={"groups": "nodes are removed"},
            applies_to="ordinary steps",
        ),
        Pass(
            join_layers,
            requires={
                "additions": "a layer computes its input projection if that adds in the order of the layer",
                "views": "a layer whose last time step alone is read is known by the view that reads it",
            },
            establishes={"layers": "recurrent layers keep gates for their gradients and skip what nobody reads"},
            invalidates={"groups": "nodes are joined and removed"},
            applies_to="ordinary steps",
        ),
        Pass(
            fuse,
            requires={
                "views": "a copy between two nodes would separate their groups",
                "layers": "a product that a layer computes itself belongs to no group",
            },
            establishes={"groups": "one loop nest computes each group"},
            invalidates={
                "recomputed": "new groups store all that others read",
                "ordered": "a group is where its first or its last node was",
            },
            applies_to="ordinary steps",
        ),
        Pass(
            separate,
            requires={"nodes": "each node is a group"},
            establishes={
                "groups": "each op can be checked",
                "ordered": "groups have the order of the block, and no group overwrites a state",
            },
            applies_to="instrumented steps",
        ),
        Pass(
            recompute,
            requires={"groups": "a value is recomputed if all groups that read it can do so"},
            establishes={"recomputed": "no cheap value is stored that its readers can compute"},
            invalidates={
                "ordered": "a group that recomputes an update reads the old state",
                "kernel steps": "groups compute other nodes",
            },
            applies_to="ordinary steps",
        ),
        Pass(
            merge_bottlenecks,
            requires={"recomputed": "a convolution that computes its own operand is part of no bottleneck"},
            establishes={"bottlenecks": "the tensors inside an inverted bottleneck are not stored"},
            invalidates={
                "ordered": "the merged group reads the operand of the first convolution at the position of the last",
                "kernel steps": "three groups become one",
            },
            applies_to="ordinary steps",
        ),
        Pass(
            delay_updates,
            requires={"bottlenecks": "the last reader of an old value depends on which groups read it"},
            establishes={"ordered": "an update follows the last reader of the old value where it can"},
            invalidates={"kernel steps": "kernel steps are listed in the order of the groups"},
            applies_to="ordinary steps",
        ),
        Pass(
            partition,
            requires={
                "groups": "a group becomes one kernel",
                "ordered": "equal kernels have the kernel steps of the first one",
            },
            establishes={"kernel steps": "work items of a kernel step can be computed by any threads in any order"},
        ),
        Pass(
            prepack,
            requires={
                "kernel steps": "their cost is compared with the memory that prepacking takes",
                "ordered": "a group that is prepacked makes the operands of later groups invariant",
            },
            establishes={"prepacked": "a prediction does not compute again what it derives from states alone"},
            invalidates={"phases": "prepacked kernel steps belong to no phase"},
            applies_to="ordinary steps",
        ),
        Pass(
            schedule,
            requires={
                "ordered": "phases keep the order of the groups",
                "kernel steps": "the kernel steps of a group are in consecutive phases",
            },
            establishes={"phases": "groups of one phase may run concurrently"},
            invalidates={"memory": "lifetimes are counted in phases"},
        ),
        Pass(
            place,
            requires={"phases": "lifetimes are counted in phases"},
            establishes={"memory": "every stored tensor has an offset"},
        ),
        Pass(
            chunk,
            requires={"phases": "threads take the chunks of one phase at a time"},
            establishes={"chunks": "a thread computes a chunk without synchronisation"},
        ),
    ),
    promises={
        "additions": "results have the same bits for any memory plan and number of threads",
        "phases": "a barrier separates them",
        "memory": "the engine binds offsets to addresses",
        "chunks": "the driver hands them to threads",
    },
)
