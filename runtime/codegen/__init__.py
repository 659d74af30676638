"""The code generator: a bound block becomes NativeCode, without an engine, memory or addresses.

A package imports only packages above it:

machine    the target of code: an instruction set, its registers, the caches
board      the words by which the threads of a step share its chunks
code       NativeCode: a compiled step as a value, with symbols instead of addresses
code_bytes NativeCode as bytes, and read again
code_bounds the check that NativeCode from a file fits its block
costs      the cost model: cycles of every way to compute a result
ir/        a package of its own: the builder that writes LLVM's IR
math/      a package of its own: elementary functions
kernels/   a package of its own: loops for products, convolutions, attention, recurrent layers and copies
rules/     a package of its own: the lowering rule of each operator, one family a file
lowering/  a package of its own: from a block to groups with offsets in memory
emit/      a package of its own: from groups to functions
lower      the lowering of a block by all passes
explain    lowering and its result in words
assemble   from a lowered block to NativeCode
"""
