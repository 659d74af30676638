"""Engines that run the steps of a bound block, and their common parts.

choice       the engines by name; each is imported when it is chosen
engine       the interface of an engine: everything that the rest of the runtime knows about it
around_step  the work of every engine around the ops of a step: feeds, copies of fetches, late updates
faults       errors of ops, with the op and the user's line named
nan_watch    the search for NaN and Inf in every output of a step, and for their cause
parts        the parts of a step, for profiles and traces
workspace_memory the memory of a workspace and the file beside it, counted against the memory limit
spill_file   a memory-mapped file, in a folder of the user, for values that a plan moves out of memory and back
step_start   copies of the states and feeds at the start of a step, restored after a failure
native/      the engine that compiles code
reference/   the engine that calls NumPy

To add an engine:

1. A folder in `runtime/engines/`, whose `engine.py` implements the protocols of `runtime/engines/engine.py`.
2. In `runtime/engines/choice.py` the function that imports it, its line in `ENGINES`, and its word in `EngineName`.
3. Its tests. `tests/oracles/other_engine.py` is an engine of one page; `tests/running/test_engines.py` tests it
   through commands and library.
"""
