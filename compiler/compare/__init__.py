"""Differences of two programs, in words.

block_differences  differences of two blocks, one sentence a line
differences        differences of two programs: states, data, the run, and each entry
field_differences  differences of two messages or values, one sentence a line: `w: trainable: true -> false`
matched_ops        correspondence of the ops of two blocks
"""
