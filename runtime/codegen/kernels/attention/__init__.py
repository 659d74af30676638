"""Attention: a work item computes the weights of one block of queries at a time, in scratch of its thread.

heads     the layout of operands, and the division of queries into blocks
rows      operands and results in memory, as rows by image and head
products  products of a block with the keys that it sees, and copies of their operands
pairs     those of bfloat16, by pairs along the depth
seen      the number of keys that a block sees, up to the first keys that its mask hides
weights   softmax of scores, with masks
forward   the results
backward  gradients, with the weights recomputed
cached    the results of new positions that attend to cached ones
"""

from runtime.codegen.kernels.attention.backward import backward as backward
from runtime.codegen.kernels.attention.cached import cached as cached
from runtime.codegen.kernels.attention.forward import forward as forward
from runtime.codegen.kernels.attention.rows import ResultPlace as ResultPlace
from runtime.codegen.kernels.attention.rows import can_read as can_read
