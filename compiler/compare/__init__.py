"""Differences of two programs, in words, and of the numbers of two models.

block_differences  differences of two blocks, one sentence a line
differences        differences of two programs: states, data, the run, and each entry
field_differences  differences of two messages or values, one sentence a line: `w: trainable: true -> false`
matched_ops        correspondence of the ops of two blocks
models             models that give their results: ONNX files and programs
numbers            largest differences of results, and where they begin
"""
