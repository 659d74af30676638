"""Attention: a unit makes the weights of a block of queries in its thread's own memory, and no more of them at a time.

heads     how operands lie, and how queries are cut into blocks
panels    keys or values turned around, as the tile reads them
products  products of a block, with as many keys as it sees
seen      how many keys a block sees; what a mask hides after those is left out
weights   softmax of scores, and what masks hide of them
forward   the results
backward  gradients, with the weights made again
"""

from runtime.codegen.kernels.attention.backward import backward as backward
from runtime.codegen.kernels.attention.forward import forward as forward
