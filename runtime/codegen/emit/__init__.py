"""Emission of code for groups: a function for every distinct group, and one for every segment between host ops.

driver      the function that runs a step by all these functions, on all threads
records     the tables that a driver reads
actions     the actions of conditions and loops, which the driver runs
random_bits random bits outside of steps
group_steps the kernel steps of a group, by the kind of its lowering rule
body        the nodes of a group at one position of its domain
elements    groups of pointwise nodes only
bottlenecks  groups of three convolutions in row tiles
producer    the operands that a product or convolution computes where it packs them
evaluations how often a product or convolution computes each element of such an operand
conv_epilogue groups that begin with a convolution
products    groups that begin with a product: their tiles, and parts of their depth that are added later
partition   the partition of a product for threads: parts of its rows, columns or depth
row_tiles   work items that are rows of a batch, and the rows that they read
matrix_vector groups whose product has one column
large_products products that copy their right operand first, once for all threads
reductions  groups that end with reductions
moments     groups that end with the mean and the variance of each channel
rows        groups that process rows and use reductions of these rows
row_passes  the passes over a row, and the nodes of each
code        all functions as one object
"""
