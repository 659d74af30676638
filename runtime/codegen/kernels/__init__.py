"""Kernels: loops that compute what no expression of an element can.

steps       the contract of a kernel: steps, one after the other, each of work that threads share
nest        loops over a domain, and how operands lie along it
indices     indices of elements in a result
registers   elements as expressions see them, and as they lie in memory
reduction   sums and their like along rows and down columns, in a fixed tree
tiles       the micro-kernel: a tile of a result in registers, along a depth of several loops
copies      elements one behind the other, copied or filled as vectors
partial_sums partial sums added in order
matmul/     a package of its own: products of matrices
moves/      a package of its own: boxes of elements copied or filled
conv/       a package of its own: convolutions and pools of images
attention/  a package of its own: attention and its gradient
recurrent/  a package of its own: recurrent layers

`conv`, `attention` and `recurrent` do not import each other; what they share stands above them.
"""
