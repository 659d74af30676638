"""The native engine: a training step as one compiled function; docs/native.md is its design.

engine     the engine: its options, the code of its steps, its memory
executor   a bound entry, ready to step
instrumented the ops of a step one by one, each checked for NaN, before the step
driver     runs the phases of a step
helpers    threads that run phases beside the calling thread
system_calls functions of the system that compiled code calls
prepacked  memory of values derived from states alone, kept while the states stay the same
step_code  the code of a step, read from the cache or compiled; it is made once for any number of bindings
views      descriptions of a step; any machine can print them for any instruction set
step       code bound to memory: symbols become addresses
repeated_steps many steps in one call
row_input  the input of rows into each of these steps
feeds_in_place feeds that a step reads in the caller's arrays
peak       floating-point operations per second of this machine
plugin_rules lowering rules of plugins
host       NumPy kernels for ops without a lowering rule
profile_blocks the times of groups in loops and conditions
inner_hosts such kernels between two phases of a loop
runtime_checks numbers that an op rejects, found by compiled code, and their errors
cpu        this machine: its instruction sets and the sizes of its caches
amx        features that Linux lists, and the permission to use the tiles of AMX
compiled   functions of a step: read from the cache, or compiled and written to it
cache/     a package of its own: compiled code in the user's cache folder
jit        from IR to callable functions
release_memory release of memory that compiling took
objects/   a package of its own: objects of compiled code, read and made callable without LLVM
random_bits random bits for callers that draw many outside of steps
"""
