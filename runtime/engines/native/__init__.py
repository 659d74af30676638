"""The native engine: a training step as one compiled function; docs/native.md is its design.

engine     the engine: what it has, its memory, its steps
executor   a bound entry, ready to step
instrumented the unfused ops of a step, each checked for NaN, before the step
driver     what makes the phases of a step
helpers    threads that help to make them
prepacked  what follows from states alone, kept as long as they stay the same
step       a bound entry lowered by `runtime.codegen`, compiled and bound to memory
repeated_steps many steps in one call
row_input  how rows get into each of them
feeds_in_place feeds that a step reads where they lie
peak       how fast this machine multiplies and adds
host       NumPy kernels for what has no form
runtime_checks what compiled code found that an op refuses, and who says it
cpu        what this machine is: its instruction sets and the sizes of its caches
compiled   the code of a step: kept by an earlier run, or compiled and kept
cache/     a room of its own: compiled code in the user's cache folder
jit        from IR to functions that can be called
release_memory memory that compiling took
objects/   a room of its own: objects of compiled code, read and made callable without LLVM
random_bits random words for who draws many outside of steps
"""
