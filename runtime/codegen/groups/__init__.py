"""The nodes of a block, and the groups of nodes that kernels compute.

view         the offset and strides of a tensor that is part of another one
nodes        ops with their lowering rules, and their tensors
group        nodes that one loop nest computes
group_kernel a group with operand numbers instead of names, so that equal groups are equal
producers    which nodes may compute an operand where a product or convolution packs it
instructions the number of instructions of a pointwise node
"""
