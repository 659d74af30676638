"""Weights as codes of few bits.

block_codes  arrays as codes and scales, and back
quantized    the blocks of a program that read codes and scales instead of weights
"""
