"""Lowering of a bound block to groups with offsets in memory, by a table of passes whose results can be printed.

passes/          the passes, one file each, and their table
lowered_block    the state between two passes
control          blocks inside ops of control flow: arguments and results outside of them
decompositions   the ops that replace an op by its decomposition
clamped_masks    masks of clamped values, which need no clamp
fusion_legality  which nodes may be computed in one loop nest
kernel_plans     kernel steps by the key of a kernel
tiled_chains     groups that continue with the row tiles of each other
phases           groups that may run concurrently
in_place         the tensors that the code of a group can overwrite
memory           stored tensors and their offsets
chunks           ranges of work items, for threads to share
useful_threads   the number of threads on which the chunks of a step take the least time
"""
