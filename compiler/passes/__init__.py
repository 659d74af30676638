"""The passes: `pipeline` is the list, with the reasons for its order; one file a pass, named as the pass.

bind_dimensions      make a static block of every binding
bound_blocks         the blocks of a program that run: those of its bindings, as opposed to what they were made from
eliminate_dead_ops   drop what nobody reads
fold_constants       compute while compiling what every step would compute alike
leave_frozen         frozen parameters are not trained; and the marks that say so
list_operators       write down which version of each operator the program means
merge_identical      compute once what is computed twice
order_ops            run the ops in the order that needs the least memory, among a few
pass_options         the options of a pass: the keyword parameters of its function
pass_order           whether the order of passes holds: every fact that one requires holds before it
pass_table           what a pass is, and what a table of passes is
pipeline             the passes, in order: a list to read aloud
plan_memory          give every binding the plan of its memory
rewrite              one walk over a block that leaves out ops: what merging, simplifying and folding have in common
run_passes           apply passes to a program, and find the one that is at fault if something is wrong
share_memory         let tensors share memory where that changes no value
training_rules       the rules about what makes a block train: backward ops, gradients, declared lifespans
use_inference_forms  outside training, ops take their inference form
verify               the rules of a well-formed program, one function a rule
simplify/            a room of its own
"""
