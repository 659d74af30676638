"""Program builder: programs, tensors, states and data, as messages from the first call on.

asked_names    checks that the splits, the entry and the metric that the run names exist
assembly       splits the block that a user builds into the blocks and entries of a program
brought_arrays  initial values that an import brought, written beside a saved program
crossed_rows   the check that a loss does not pair each prediction with the labels of all rows
columns        checks that the columns and splits that a program names are in its data file
compiled       binding, running the passes, and the finished program
data           the messages about rows and runs
declarations   checks of a new tensor, and the reduction of a fetch over steps
graft          adds the ops of one block to another of the same program
last_batch     the rows of a training step, and the rows left at the end of an epoch
mixed          mixed precision as it is asked for, as the options of its pass
quantized_training  quantisation-aware training as it is asked for, likewise
limits         sizes of symbols that an imported program holds for
locations      the user's line of an op, as an entry of the program's string table
opened         a program file as a starting point for building
other_words    names that programs do not have, and their replacements
plugins        operators of other packages, imported only if their plugin's name is given
program        Program: builds a training run, op by op, and compiles it into one file
reports        the reports of training and other entries, and their reduction over steps
scopes         prefixes of the names of states and tensors that are made within a scope
setting_numbers  intervals of settings, and the settings of an opened file
state_table    the states of a program: their descriptions, with the ops of their initial values
well_formed    a program file, or its text form, verified
whole_numbers  integers from a user: counts of steps and epochs, seeds
"""
