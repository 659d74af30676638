"""From groups to code: a function for every distinct group, one for every segment between host ops.

driver      what makes a step of all these functions, on as many threads as there are
group_steps how the work of a group is divided, by the kind of its form
body        the nodes of a group at one place of its domain
elements    groups of pointwise nodes alone
bottlenecks  groups of three convolutions in strips of rows
conv_prologue groups that begin with a convolution, one of whose operands they make
conv_epilogue groups that begin with a convolution
products    groups that begin with a product
partition   how a product is divided for threads
row_tiles   units that are rows of a batch, and what they read
matrix_vector those whose product has one column
large_products products that copy their right operand first, once for all threads
reductions  groups that end with reductions
rows        groups that go over rows, and use what is joined in them
row_passes  in how many passes, and what each computes
code        all of it as one object
"""
