"""What a user builds: programs, tensors, states and what executing does, as messages from the first call on.

asked_names    that the splits, the entry and the metric that the run names are there
assembly       from what a user builds, one block for all, to the blocks and entries of a program
columns        that the columns and splits that a program names are in its data file
compiled       binding, running the passes, and the finished program
data           what a program says of its rows, and of what executing it does
declarations   what a program may be told of a new tensor, and how a fetch combines
graft          adding the ops of one block to another of the same program
last_batch     how many rows a training step takes, and the rows left at the end of an epoch
locations      the user's line behind an op, as an entry of the program's string table
opened         a program file as something to build on
other_words    what programs are asked for that they do not have, and who has it
plugins        operators of other packages, imported where their plugin's name is given and nowhere else
program        program: builds a training run, op by op, and compiles it into one file
reports        what training and the other entries report, and how it combines over steps
scopes         what stands before the names of the states and tensors that are made within a scope
setting_numbers  what settings may be, and those of a file that is opened
state_table    the states that a program declares: their descriptions, with the ops that give their initial values
well_formed    a program file, or its text form, that has been verified: to look at, or to build on
whole_numbers  whole numbers that a user gives: counts of steps and epochs, seeds
"""
