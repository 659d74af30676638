"""Convolutions of 3 x 3 by Winograd's minimal filtering: 4 multiplications for an output pixel instead of 9.

convolution          the convolution, and the gradient of its input
plan                 the partition and the cost
transforms           transforms of pixels, of filters, and of sums
tiles                the positions of tiles, and the transform of their pixels
filters              transformed filters in panels
non_finite           pixels near numbers that are not finite
filter_gradient      the gradient of the filter
gradient_plan        its partition and its cost
non_finite_filters   channels with numbers that are not finite
"""
