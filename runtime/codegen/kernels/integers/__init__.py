"""Exact products and convolutions of bytes.

words        neighbours of the depth in words of 32 bits, and their multiply-add
shape        a convolution of bytes; a product of matrices is one of a line of pixels
source       rows of an image as the elements of words, padded
sums         sums of products for the rows of a tile, by vectors or by the tiles of AMX
corrections  what sums of products of codes lack to be sums of products of differences
convolution  the loops around tiles of pixels and channels
depthwise    the loops for groups of one channel
depthwise_words  the same by products of words
"""
