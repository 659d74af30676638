"""A run: its states, training, evaluation, position, checkpoints, and end.

run                the library: a facade for a session and the standing of its training
session            a program that is ready to make steps: states, rows, an engine
standing           the state of a run's training in this process

begin_training     the set-up of a training run, from program and options to events
course             the entry, length and rows of a training
watching/          what watches a training: the judgement by metrics, and callbacks
training           the training loop: steps, epochs, evaluations, the best states, checkpoints
evaluation         an entry run over rows without training: evaluation and prediction
predictions        the fetches of entries for any number of given rows
untrained          a warning for entries that compute with values that were not trained, loaded or set
own_loop/          steps that a loop of the caller makes
events             the reports of a training run: frozen records, one kind per occasion. Epochs and steps count from 1
metrics            metrics: scalar fetches, and their combination over steps
position           the position of a run: everything besides the states that a later process needs

states             the states of a program: named arrays that outlive a step
values_from_files  initial values in files beside a program
settings           numbers that a program lets a run choose
state_locks        a lock on the states: shared by threads that read them, exclusive for a thread that changes them
workspaces         workspaces of an engine, lent to the threads of a run
stepper            the making of steps: within the limit of time, and recorded by a trace
overtime           the end of a run that goes on after it was asked to end
interrupts         the handling of signals: at once while nothing is under way, else between two steps

loading            parameters and buffers from a file: all or some, by its names or by those of PyTorch
torch_names        the position of the states of layers in a state dict of PyTorch
reproducer         a failed step as a program of its own
run_record         a run in a small JSON file: its inputs, results and machine
evidence/          a statement about a run that others audit: a chain of hashes, and a signature
machine            everything besides the program that a result may depend on: versions and the CPU
raw/               rows as callers and tables have them, and predictions as people read them
shown/             states and fetches by name, as prompts and notebooks show them
checkpoints/       a run in files: written while it trains, and read back to go on
"""
