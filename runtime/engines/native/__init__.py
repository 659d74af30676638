"""The native engine: a training step as one compiled function; docs/native.md is its design.

context    the table of addresses that compiled code is handed
forms/     a room of its own: what ops are as loops
ir/        a room of its own: the builder that writes LLVM's IR
jit        from IR to functions that can be called
math/      a room of its own: elementary functions
product/   a room of its own: products of matrices
reduction  sums and their like along rows and down columns, in a fixed tree
target     what code may be made of: instruction set, vector registers, fused multiply-add, caches of this CPU
"""
