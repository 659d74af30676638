"""Oracles: each is simpler than what it judges, and shares no code with it.

interpret     a block, one op after the other, every tensor an array of its own: no arena, plan or schedule
poison        steps during which every dead byte of the arena is NaN
memory        placements: every pair of buffers, every phase
placement     optimal placements of a few buffers: every order
in_place      what may be written over what: memory cell by cell
philox        random numbers by Python's own, one at a time
half_floats   16-bit floats by tables of all their numbers
other_engine  an engine without arena, plan or memory that is shared
windows       convolution and pooling by loops over places and taps
integers      quantised numbers and products of integers, by integers of NumPy
optimizers    optimizers in NumPy, a parameter at a time, as the papers have them
allocation    the most bytes that a block of Python took, by `tracemalloc`
"""
