"""Windows over images. Convolutions are products whose rows are places and whose depth is taps and channels.

axes         one axis as places and taps, forwards and backwards
plan         how a convolution is cut for registers, caches and threads
borders      copies of images with zeros around them
correlation  the convolution, and the gradient of its input
folded       the same, whose vectors are channels below all columns of the filter
winograd     3 x 3 with 4 multiplications for a place instead of 9
bottleneck   three convolutions strip by strip, what lies between never in memory
streamed     a convolution whose filter is read once, in the order of memory
filter_plan  how the gradient of its filter is cut
filter_gradient the gradient of its filter
filter_gradient_1x1 the gradient of a filter of one place
line_filter_gradient the gradient of a filter to few channels
depthwise    channels by themselves: the convolution, and the gradient of its input
depthwise_filter_gradient the gradient of their filter
channel_multiplier channels by themselves that make several
variants     the variants of a convolution and of its filter's gradient, by price
taps         loops over what lies under a window
pooling      maxima and means under a window
pool_gradients  their gradients
"""
