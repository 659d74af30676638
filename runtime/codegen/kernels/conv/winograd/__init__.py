"""Convolutions of 3 x 3 by Winograd's minimal filtering: 4 multiplications for a place instead of 9.

convolution the convolution, and the gradient of its input
plan        how it is cut, and what it costs
transforms  of pixels, of filters, and back
tiles       where its tiles lie, and their pixels transformed
filters     filters transformed, in panels
non_finite  places near which something is not finite
filter_gradient  the gradient of its filter
gradient_plan    how that is cut, and what it costs
non_finite_filters channels at which something is not finite
"""
