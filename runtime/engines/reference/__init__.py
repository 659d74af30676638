"""The reference engine: NumPy kernels, one function per op, views into one arena.

bind        from a bound block to arrays in one arena and calls without arguments
bound_step  a whole step as calls: copies of fetches, the ops, updates that no op has made in place
control     conditions and loops, whose bodies are bound once
engine      the engine: its name, the memory that an entry needs, new workspaces
executor    runs one bound entry: all look-ups and placement happen once, a step then only calls kernels
target      the properties of this engine that planning depends on: scratch, and in-place pairs of its kernels
workspace   an arena, a file beside it, and the executors that take turns in them
kernels/    the function that computes each op, with its own rule of types; one family per file
threads/    the ways to call the ops of one step, and the threads they take
"""
