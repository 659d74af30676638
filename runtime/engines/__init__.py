"""Engines: what runs the steps of a bound block, and what they have in common.

choice       the engines by name; each is imported when it is chosen
engine       what an engine is: all that the rest of the runtime knows of what computes
around_step  what every engine does around the ops of a step: feeds, copies of what is fetched, late updates
faults       what an op raised, in a sentence that names the op and the user's line
nan_watch    looks at every output of a step for NaN and Inf, and says what made the first one
parts        what a step is made of, for who measures it
room         the memory of a workspace and the file beside it, on the account of what is allocated
spill_file   a memory-mapped file for what a plan moves out of memory and back
step_start   what a step began with: states and feeds, kept beside it and put back after a failure
native/      a room of its own
reference/   a room of its own
"""
