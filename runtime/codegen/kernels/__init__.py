"""Kernels: loops for results that are not computed element by element.

steps       the contract of a kernel: steps, one after the other, each with work items that threads share
op_types    types and attributes of an op, from which steps are planned
split       totals in blocks or parts
nest        loops over a domain, and the strides of operands along it
indices     indices of elements in a result
registers   elements in registers and in memory
reduction   reductions along rows and down columns, in a fixed tree
moments     sums and squared deviations down rows, in one pass
depth       the operands of a tile, and the depth of a product as loops
pair_products pairs of bfloat16 as words, and the mode in which their products are added
pair_chains tiles of products of pairs by vector instructions
matrix_tiles the same tiles by AMX
tiles       the micro-kernel: a tile of a result in registers, along a depth of several loops
copies      contiguous elements, copied or filled
partial_sums partial sums added in order
matmul/     a package of its own: products of matrices
moves/      a package of its own: boxes of elements copied or filled
conv/       a package of its own: convolutions and pooling of images
attention/  a package of its own: attention and its gradient
recurrent/  a package of its own: recurrent layers
integers/   a package of its own: exact products and convolutions of bytes

`conv`, `attention` and `recurrent` do not import each other; modules that they share stand above them.
"""
