"""A run: its states, training, evaluation, where it stands, checkpoints, and how it ends.

begin_training     from what the program says and what was asked to a training run that is ready to go
checkpoint         checkpoints: all states of a run and where it stands, in one safetensors file
checkpoint_folder  a folder of checkpoints: named by step, the newest few kept
evaluation         running an entry over rows without training: evaluation and prediction
events             what a training run reports: frozen records, one kind per occasion. Epochs and steps count from 1
folder_lock        one process at a time writes into a folder
interrupts         what signals do: at once while nothing is under way, and between two steps
loading            taking parameters and buffers from a file: all or some, by its names or by those of PyTorch
machine            what a result may depend on besides the program: versions and the CPU
metrics            metrics: scalar fetches, and how they combine over steps
overtime           ends a run that goes on after it was asked to end
position           where a run stands: all besides the states that a later process needs
reproducer         a failed step as a program of its own
run                the library: a loaded program, its states, and everything that can be done with them
run_record         a run in a small JSON file: what it was asked, what it gave, on what machine
state_view         the states of a run, to read and to write by name
states             the states of a program: named arrays that outlive a step
torch_names        where the states of layers lie in a state dict of PyTorch
training           the training loop: steps, epochs, evaluations, the best states, checkpoints
turns              turns at the states: several threads read them at once, or one thread alone changes them
"""
