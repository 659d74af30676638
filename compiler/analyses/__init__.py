"""Questions about a block. Those that passes share are answered once and kept with its reading, until it is edited.

costs             what an op costs, in operations: an estimate from shapes alone
execution_orders  when what belongs to a forward op runs: its gradients, its derivatives, its updates
lifespans         how long each tensor of a step is needed, in words
memory_report     what a program's steps take of memory, and what that costs: the numbers that `compiler plan` prints
op_scopes         the scope that each op of a block belongs to: that of its layer, if there is one
step_graph        a block that runs, as numbers: what each op waits for, reads, writes, needs
step_memory       the memory of one step, to be looked at: every buffer, and who needs the most
summary           what a program is, on one screen: its layers with their states, its entries with their ops
update_times      when each trained parameter gets its new value: right after its gradient, or later, and why
"""
