"""Checks of a module and its graph: what torch.export drops, fixes or does not see.

calls           two calls with the examples, which show what torch.export has not seen
guards          sizes for which a graph is what the module does, as torch.export notes them
hidden_writes   writes into tensors with gradients of which no gradient is recorded
hooks           hooks of gradients
own_gradients   functions that define their gradients themselves
same_calls      calls in both modes that run the same operators
signature       the entries of the signature of a graph, understood or refused
single_rows     one row, for which a graph may do something else
thresholds      thresholds of constants that only larger sizes reach
"""
