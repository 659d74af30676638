"""The runs of a sweep, and what they gave.

runs     every combination of settings and seeds, each a process, some at once
table    which run is best, as a table and as JSON
"""
