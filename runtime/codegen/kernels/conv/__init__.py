"""Windows over images. A convolution is a product whose rows are output pixels and whose depth is taps and channels.

axes         one axis as output positions and taps, forwards and backwards
plan         the partition of a convolution for registers, caches and threads
borders      copies of images with zeros around them
correlation  the convolution, and the gradient of its input
folded       the same, with vectors of the channels of all columns of the filter
winograd     3 x 3 with 4 multiplications for an output pixel instead of 9
bottleneck   three convolutions row tile by row tile, without their intermediate images in memory
streamed     a convolution that reads its filter once, in the order of memory
filter_plan  the partition of the gradient of a filter
filter_gradient the gradient of a filter
filter_gradient_1x1 the gradient of a 1x1 filter
line_filter_gradient the gradient of a filter with few output channels
depthwise    the depthwise convolution, and the gradient of its input
depthwise_filter_gradient the gradient of a depthwise filter
channel_multiplier depthwise convolutions with several output channels for each input channel
variants     the variants of a convolution and of its filter's gradient, by price
bfloat16     convolutions of bfloat16, by pairs of channels or widened
taps         loops over the taps of a window
pooling      maxima and means of windows: a window is folded into one number per channel
pool_gradients  the gradients of pooling
"""
