"""Exact products and convolutions of bytes.

words        pairs of 16-bit integers in words of 32 bits, and their multiply-add
shape        a convolution of bytes; a product of matrices is one of a line of pixels
source       rows of an image as 16-bit differences from the zero point, padded with 0
convolution  the loops around tiles of pixels and channels
depthwise    the loops for groups of one channel
"""
