"""Rows: where they come from, and how steps take them.

data  the program's own rows, read while it runs: columns and splits of its data file; the compiler looks at that file
      when a program is saved (compiler.build: columns, last_batch)
rows  rows: the values of feeds, from which the steps of a run take their batches
"""
