"""Thorough planning of a finished program: budgets, values spilled to a file, space for threads.

give_room          give plans the bytes with which several threads find more ops to run at once
keep_budget        let no arena be larger than a budget
pipeline           the passes that `plan` runs on a finished program, in order
plan_program       plan the memory of a finished program, within a budget if there is one
prefetch           reload spilled values before they are needed
recompute_scopes   recompute the forward ops of scopes that the caller names
rematerialise      lower the peak of a step by recomputing values, or by spilling them to a file
timeline           a step with recomputed ops and spilled values: its graph, its order, its live bytes
time_limit         a limit of seconds for a search; the best result within it counts
touched_bytes      the bytes that each op of a placed step touches
units              recompute the forward pass in units, such as layers, from what enters each
write_timeline     conversion of a timeline to a block: recomputed ops get ids and tensors of their own
"""
