"""The reference engine: NumPy kernels, one function per op, views into one arena.

bind        from a bound block to arrays in one arena and calls without arguments
bound_step  a whole step as calls: copies of what is fetched, the ops, what no op has updated in place
engine      the engine: its name, what an entry needs, new workspaces
executor    runs one bound entry: everything is looked up and placed once, a step then only calls kernels
target      what planning a step must know of this engine: scratch, and what its kernels write in place
workspace   an arena, a file beside it, and the executors that take turns in them
kernels/    the function that computes each op, with its own rule of types; one family a file
threads/    the ways to call the ops of one step, and the threads they take
"""
