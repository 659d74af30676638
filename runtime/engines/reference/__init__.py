"""The reference engine: NumPy kernels, one function per op, views into one arena.

bind        from a bound block to arrays in one arena and calls without arguments
engine      a workspace for each thread that makes steps at the same time
executor    runs one bound block: everything is looked up and placed once, a step then only calls kernels
nan_watch   looks at every output of a step for NaN and Inf, and says what made the first one
spill_file  a memory-mapped file for what a plan moves out of memory and back
target      what planning a step must know of this engine: scratch, and what its kernels write in place
workspace   what one thread needs to make steps: an arena, a file beside it, and the executors that take turns in them
kernels/    a room of its own
threads/    a room of its own
"""
