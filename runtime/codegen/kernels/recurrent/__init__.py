"""Recurrent layers: a product for every time step, whose results go through the cell while they are near.

layer      what a layer is, and how its work is divided
state_product the states of all rows times a panel of the recurrent weights
cells      the mathematics of cells, forwards and backwards
forward    all steps in order
recomputed_gates the gates of all steps, for a gradient of which the layer kept none
backward   the gradients, step after step in the other order
biases     the gradients of biases, of those
"""
