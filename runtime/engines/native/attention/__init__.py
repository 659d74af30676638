"""Attention: a unit makes the weights of a block of queries in its thread's own memory, and no more of them at a time.

heads     how operands lie, and how queries are cut into blocks
products  products of a unit, and the memory that they need
weights   scores, what masks hide of them, and their softmax
forward   the results
backward  gradients, with the weights made again
"""

from runtime.engines.native.attention.backward import backward as backward
from runtime.engines.native.attention.forward import forward as forward
