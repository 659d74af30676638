"""Functions of tensors, with gradients, beside PyTorch.

test_complex         complex numbers as pairs, and Fourier transforms
test_composed        functions that are composed of a few ops
test_decompositions  linear algebra of small matrices
test_recurrent       recurrent layers over packed sequences, and with projections
"""
