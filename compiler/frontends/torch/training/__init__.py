"""How an imported module is trained: losses, optimizers and schedulers of PyTorch.

losses       losses of torch.nn
own_losses   other losses, exported with the module
optimizers   optimizers of torch.optim with their groups
further_optimizers  those that prograd has only here, Rprop, ASGD and Muon; and Adafactor
schedulers   schedulers of torch.optim.lr_scheduler as rates
rate_tables  rates of schedulers that call Python, evaluated for the steps of a run
"""
