"""The passes: `pipeline` is their table, with the reasons for its order; one file a pass, named as the pass.

`compiler passes` prints what each of them does. Beside them are here:

pass_options    the options of a pass: the keyword parameters of its function
pass_order      whether the order of passes holds: every fact that one requires holds before it
pass_table      what a pass is, and what a table of passes is
pipeline        the passes, in order: a list to read aloud
rewrite         one walk over a block that leaves out ops: what merging, simplifying and folding have in common
run_passes      apply passes to a program, and find the one that is at fault if something is wrong
training_rules  the rules about what makes a block train: backward ops, gradients, declared lifespans
verify          the rules of a well-formed program, one function a rule
"""
