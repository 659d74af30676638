"""A run: its states, training, evaluation, where it stands, checkpoints, and how it ends.

run                the library: a facade for a session and where its training stands
session            a program that is ready to make steps: states, rows, an engine
standing           where the training of a run stands in this process

begin_training     from what was asked to the events of a training run
course             what to train, how long and on which rows
training           the training loop: steps, epochs, evaluations, the best states, checkpoints
evaluation         running an entry over rows without training: evaluation and prediction
predictions        what entries fetch for rows that are given, any number of them
untrained          entries that compute with values that nobody has trained, loaded or set
one_step           one step of an entry with rows that are given, by itself
events             what a training run reports: frozen records, one kind per occasion. Epochs and steps count from 1
metrics            metrics: scalar fetches, and how they combine over steps
position           where a run stands: all besides the states that a later process needs

states             the states of a program: named arrays that outlive a step
settings           numbers that a program lets a run choose
turns              turns at the states: several threads read them at once, or one thread alone changes them
workspaces         workspaces of an engine, lent to the threads of a run
stepper            how steps are made: within the limit of time, and recorded by a trace
overtime           ends a run that goes on after it was asked to end
interrupts         what signals do: at once while nothing is under way, and between two steps

loading            taking parameters and buffers from a file: all or some, by its names or by those of PyTorch
torch_names        where the states of layers lie in a state dict of PyTorch
reproducer         a failed step as a program of its own
run_record         a run in a small JSON file: what it was asked, what it gave, on what machine
machine            what a result may depend on besides the program: versions and the CPU
shown/             states and what was fetched by name, as prompts and notebooks show them
checkpoints/       a run in files: written while it trains, and read back to go on
"""
