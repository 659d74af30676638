"""Numeric against analytic gradients of a program.

check      the function that users call, and its rows
losses     which loss trains which parameter, by which gradient
wide       a program in float64
feeds      seeded feeds whose integers are in range
"""
