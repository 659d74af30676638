"""Attention: a work item computes the weights of one block of queries at a time, in scratch of its thread.

heads     the layout of operands, and the division of queries into blocks
rows      operands and results in memory, as rows by image and head
panels    keys or values transposed, as the tile reads them
products  products of a block with the keys that it sees
seen      the number of keys that a block sees, up to the first keys that its mask hides
weights   softmax of scores, with masks
forward   the results
backward  gradients, with the weights recomputed
cached    the results of new positions that attend to cached ones
pairs     products of bfloat16, by pairs along the depth
pair_forward, pair_backward  results and gradients of attention of bfloat16
"""

from runtime.codegen.kernels.attention.backward import backward as backward
from runtime.codegen.kernels.attention.cached import cached as cached
from runtime.codegen.kernels.attention.forward import forward as forward
from runtime.codegen.kernels.attention.pair_backward import pair_backward as pair_backward
from runtime.codegen.kernels.attention.pair_forward import pair_forward as pair_forward
from runtime.codegen.kernels.attention.rows import ResultPlace as ResultPlace
from runtime.codegen.kernels.attention.rows import can_read as can_read
