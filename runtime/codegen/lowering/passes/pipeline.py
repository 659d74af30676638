"""The passes of lowering, in order.

Beside each pass are the facts that it requires, establishes and invalidates, with the reasons. A wrong order is refused
when this file is imported. A block inside an op has each pass before the block around it.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.lowering.passes.chunk import chunk
from runtime.codegen.lowering.passes.delay_updates import delay_updates
from runtime.codegen.lowering.passes.fuse import fuse
from runtime.codegen.lowering.passes.join_attention import join_attention
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
            establishes={"nodes": "each op has its lowering rule, and constants and decompositions are resolved"},
        ),
        Pass(
            order_additions,
            requires={"nodes": "the pass recognises a product by its lowering rule"},
            establishes={"additions": "the program alone determines the order in which each product adds"},
        ),
        Pass(
            join_attention,
            requires={
                "nodes": "the pass recognises attention by its lowering rule",
                "additions": "removing a copy changes the strides of an operand, and this must change no bit",
            },
            establishes={"heads": "attention writes heads where the ops that only move them would put them"},
            invalidates={
                "views": "a transpose that remains a copy may be removed, and its result is then no view",
                "groups": "the pass removes nodes",
            },
            applies_to="ordinary steps",
        ),
        Pass(
            resolve_views,
            requires={
                "nodes": "the lowering rule of a reader decides which strides it can read",
                "additions": "removing a copy changes the strides of an operand, and this must change no bit",
                "heads": "a result that only a transpose reads must not become a view that a copy reads",
            },
            establishes={"views": "an op that only picks elements is removed where its readers can do this"},
            invalidates={"groups": "the pass removes nodes"},
            applies_to="ordinary steps",
        ),
        Pass(
            join_layers,
            requires={
                "additions": "a layer may compute its input projection only if it adds in the same order",
                "views": "a view shows that only the last time step of a layer is read",
            },
            establishes={
                "layers": "recurrent layers keep gates for their gradients and leave out results that nothing reads"
            },
            invalidates={"groups": "the pass joins and removes nodes"},
            applies_to="ordinary steps",
        ),
        Pass(
            fuse,
            requires={
                "views": "two nodes with a copy between them cannot be fused",
                "layers": "a product that a layer computes itself must not begin a group",
            },
            establishes={"groups": "one loop nest computes each group"},
            invalidates={
                "recomputed": "new groups store every value that another group reads",
                "ordered": "a new group stands at the position of its first or of its last node",
            },
            applies_to="ordinary steps",
        ),
        Pass(
            separate,
            requires={"nodes": "each node becomes a group"},
            establishes={
                "groups": "each op can be checked",
                "ordered": "groups have the order of the block, and no group overwrites a state",
            },
            applies_to="instrumented steps",
        ),
        Pass(
            recompute,
            requires={"groups": "a value is recomputed only if every group that reads it can compute it"},
            establishes={"recomputed": "no cheap value is stored that its readers can compute"},
            invalidates={
                "ordered": "a group that recomputes an update reads the old state, and must precede the update",
                "kernel steps": "the pass changes which nodes a group computes",
            },
            applies_to="ordinary steps",
        ),
        Pass(
            merge_bottlenecks,
            requires={"recomputed": "a convolution that computes its own operand cannot be part of a bottleneck"},
            establishes={"bottlenecks": "the tensors inside an inverted bottleneck are not stored"},
            invalidates={
                "ordered": "the merged group stands at the last convolution, but reads the operand of the first",
                "kernel steps": "three groups become one",
            },
            applies_to="ordinary steps",
        ),
        Pass(
            delay_updates,
            requires={"bottlenecks": "the last reader of an old value depends on which groups read it"},
            establishes={"ordered": "an update stands after the last reader of the old value, if possible"},
            invalidates={"kernel steps": "kernel steps have the order of the groups, which the pass changes"},
            applies_to="ordinary steps",
        ),
        Pass(
            partition,
            requires={
                "groups": "each group becomes one kernel",
                "ordered": "equal kernels share the kernel steps of the first one",
            },
            establishes={"kernel steps": "any thread can compute the work items of a kernel step, in any order"},
        ),
        Pass(
            prepack,
            requires={
                "kernel steps": "the pass compares the cost of kernel steps with the memory that prepacking takes",
                "ordered": "the results of a prepacked group are invariant operands of later groups",
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
            invalidates={"memory": "the pass changes the phases in which lifetimes are counted"},
        ),
        Pass(
            place,
            requires={"phases": "the pass counts lifetimes in phases"},
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
