"""Recurrent layers: a product for every time step, whose results go through the cell while they are in a cache.

layer      sizes of a layer, and the division of its work
state_product the states of all rows times a panel of the recurrent weights
cells      the mathematics of cells, forwards and backwards
forward    all steps in order
recomputed_gates the gates of all steps, for the gradient of a layer that kept none
backward   the gradients, from the last step to the first
biases     the gradients of biases
"""
