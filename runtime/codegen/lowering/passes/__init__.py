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
"""
