"""Weights as codes of few bits.

block_codes   arrays as codes and scales, and back
weight_names  the names of what stands for a weight, and patterns of names
read_parts    the parts of weights in place of the weights that a block reads
quantized     the blocks of a program that read codes and scales instead of weights
products      products of codes in place of products of floats
recurrent     recurrent layers that multiply the codes of states
integers      the arrays and blocks of a program that multiplies integers of eight bits
forms         the forms of quantised weights, as `Program.quantize` uses them
report        metrics and errors before and after
ranges        the ranges of the operands of products, over rows of data
"""
