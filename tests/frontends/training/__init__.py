"""Losses and schedulers of PyTorch for imported modules.

test_losses      losses of torch.nn
test_own_losses  functions and modules of one's own, and targets that are probabilities
test_optimizers  states after steps
test_schedulers  every rate of a scheduler
"""
