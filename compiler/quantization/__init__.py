"""Weights as codes of few bits.

block_codes  arrays as codes and scales, and back
quantized    the blocks of a program that read codes and scales instead of weights
integers     the blocks of a program that multiply integers of eight bits
forms        the forms of quantised weights, as `Program.quantize` uses them
report       metrics and errors before and after
ranges       the ranges of the operands of products, over rows of data
"""
