"""The passes: `pipeline` is their table, with the reasons for its order; one file a pass, named as the pass.

use_inference_forms  outside training, ops take their inference form
eliminate_dead_ops   drop what nobody reads
bind_dimensions      make a static block of every binding
leave_frozen         what only trained frozen parameters is not computed
fold_constants       compute while compiling what every step would compute alike
simplify/            leave out ops whose result is there already
merge_identical      compute once what is computed twice
order_ops            run the ops in the order that needs the least memory, among a few
share_memory         views, and outputs that may be written over an operand
list_operators       write down which version of each operator the program means
plan_memory          give every binding the plan of its memory

What they are run and judged by:

pass_options    the options of a pass: the keyword parameters of its function
pass_order      whether the order of passes holds: every fact that one requires holds before it
pass_table      what a pass is, and what a table of passes is
pipeline        the passes, in order: a list to read aloud
rewrite         one walk over a block that leaves out ops: what merging, simplifying and folding have in common
run_passes      apply passes to a program, and find the one that is at fault if something is wrong
verify          the rules of a well-formed program, one function a rule
verify_training  its rules about what makes a block train: backward ops, gradients, declared lifespans
"""
