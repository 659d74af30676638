"""Analyses of a block. Shared answers are computed once and kept with its reading until an edit.

execution_orders  the positions of a forward op, its gradients, its derivatives and its updates
layer_outputs     the shape of each layer's output
lifespans         the pass or passes that need each tensor of a step
memory_report     the memory of a program's steps, and its cost: the numbers that `compiler plan` prints
needed            dead code analysis: the ops that are needed
op_scopes         the scope of each op of a block: that of its layer, if there is one
rows_of_batch     the tensors that depend on the rows of a batch
step_graph        a block that runs, as numbers: dependencies, reads, writes and memory of each op
step_memory       the memory of one step for views: every buffer, and the op with the peak
summary           a program on one screen: its layers with their states, its entries with their ops
update_times      the time at which each trained parameter gets its new value, and the reason for a delay
"""
