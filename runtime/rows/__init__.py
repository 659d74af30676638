"""Rows: where they come from, and how steps take them.

data  the program's own rows: columns and splits of its data file
rows  rows: the values of feeds, from which the steps of a run take their batches
"""
