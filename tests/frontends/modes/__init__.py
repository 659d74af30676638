"""Imported modules in training and in evaluation, and the parts of a module that torch.export drops.

test_modes               submodules stay in the modes of the user, and predictions are those of evaluation
test_called_twice        what a module keeps in Python between two calls is refused
test_autocast            regions of torch.autocast
test_sizes               sizes for which a module does something else than for those of its examples
test_dropped_by_export   hooks, assigned buffers and written parameters are understood or refused
"""
