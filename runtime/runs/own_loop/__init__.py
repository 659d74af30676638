"""Steps that a loop of the caller makes.

one_step   one step of an entry with given rows
own_steps  steps that are prepared once and called with arrays
"""
