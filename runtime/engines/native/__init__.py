"""The native engine: a training step as one compiled function; docs/native.md is its design.

engine     the engine: what it has, its memory, its steps
executor   a bound entry, ready to step
watching   the unfused ops of a step, each checked for NaN, before the step
driver     what makes the phases of a step
helpers    threads that help to make them
prepacked  what follows from states alone, kept as long as they stay the same
step       a bound entry lowered, compiled and bound to memory
arranging  when its groups are computed, and in which order
lowering/  a room of its own: from a block to groups with places in memory
forms/     a room of its own: what ops are as loops
emission/  a room of its own: from groups to code
repeat     many steps in one call
taking     how rows get into each of them
led        feeds that a step reads where they lie
explain    what becomes of a block, in words
peak       how fast this machine multiplies and adds
host       NumPy kernels for what has no form
refusals   what compiled code found that an op refuses, and who says it
target     what code may be made of: instruction set, vector registers, fused multiply-add, caches of this CPU
ir/        a room of its own: the builder that writes LLVM's IR
compiled   the code of a step: kept by an earlier run, or compiled and kept
cache/     a room of its own: compiled code in the user's cache folder
jit        from IR to functions that can be called
given_back  memory that compiling took
objects/   a room of its own: objects of compiled code, read and made callable without LLVM
words      random words for who draws many outside of steps
math/      a room of its own: elementary functions
product/   a room of its own: products of matrices
convolution/  a room of its own: convolutions of images
attention/  a room of its own: attention and its gradient
recurrent/  a room of its own: recurrent layers
reduction  sums and their like along rows and down columns, in a fixed tree
"""
