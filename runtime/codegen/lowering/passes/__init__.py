"""The passes of lowering: `pipeline` is their table, with the reasons for its order. One file is a pass, named like it.

read             ops become nodes; constants and decompositions are resolved
order_additions  the order in which each product adds
join_attention   let attention write its results where transposes and concatenations would move them
resolve_views    remove ops that only pick elements, where readers can do it by strides
join_layers      join recurrent layers with the ops around them
fuse             form groups of nodes that one loop nest computes
separate         put each node of an instrumented step into a group of its own
recompute        compute cheap values again where they are read, instead of storing them
merge_bottlenecks  merge the three convolutions of an inverted bottleneck
delay_updates    move updates of states behind the last reader of the old value
partition        partition the work of groups into kernel steps with work items
prepack          separate values that are derived from states alone
schedule         assign groups to phases
place            assign offsets in memory
chunk            combine work items into chunks

pipeline         the passes, in order
pass_table       the classes of a pass and of the table of passes

To add a pass:

The native engine lowers a bound block by passes of its own. They differ from those of the compiler: a pass edits
nothing, but takes a `LoweredBlock` and returns a new one.

1. A file in `runtime/codegen/lowering/passes/`. It opens with its algorithm as numbered sentences. The function
   `name(block: LoweredBlock) -> LoweredBlock` follows, then the functions that it calls. `compiler passes native`
   prints the first line of its docstring. A result of its own is a new field of `LoweredBlock`. The pass has
   already been applied to the blocks inside ops, which are in `block.bodies`.
2. Its position in `PASSES` in `runtime/codegen/lowering/passes/pipeline.py`, with the facts that it requires,
   establishes and invalidates, each with the reason, and whether it applies to instrumented steps, which compute
   each op on its own. The import fails if the order violates the facts. `make docs` writes docs/passes.md again.
3. If it changes how a group is computed, its emission in `runtime/codegen/emit/`, which must not decide anything
   about memory or bits.
4. Tests: the change on the smallest block that shows it, a block that it must not change, and equal bits with and
   without it. `compiler show PROGRAM --engine native --after NAME` prints the block after the pass.
"""
