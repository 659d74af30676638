"""What an imported module does in training and in evaluation, and what torch.export drops of it.

test_modes               submodules stay in the modes of the user, and predictions are those of evaluation
test_dropped_by_export   hooks, assigned buffers and written parameters are understood or refused
"""
