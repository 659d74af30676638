"""The passes: `pipeline` is their table, with the reasons for its order; one file a pass, named like the pass.

use_inference_forms  outside training, ops take their inference form
eliminate_dead_ops   drop ops whose results nothing reads
mixed_precision/     round the operands of products to bfloat16, if it is asked for
bind_dimensions      make a static block of every binding
leave_frozen         drop ops that only train frozen parameters
split_batch          compute the batch of a training step shard by shard, and add what the shards have in common
hoist_invariants     move what is equal in all iterations of a loop before the loop
batch_products       make products of a scan that its carries do not wait for once, for all iterations
recompute_in_loops   let the gradient of a loop compute again what the loop would store, for a budget
fold_constants       compute at compile time the values that are equal in every step
simplify/            remove ops whose result already exists
merge_identical      compute identical ops once
order_ops            run the ops in the order that needs the least memory, among a few
share_memory         views, and outputs that may be written over an operand
list_operators       record the version of each operator of the program
plan_memory          give every binding the plan of its memory

Modules that run and check them:

control_operands what blocks inside ops learn of their operands: constants, and operands that occur twice
new_tensors     new tensors of a block, under free names
pass_options    the options of a pass: the keyword parameters of its function
pass_table      the classes of a pass and of a table of passes
pipeline        the passes, in order
prune_control   removal of what nothing needs in the blocks inside ops
rewrite         one walk over a block that removes ops, shared by merging, simplifying and folding
run_passes      apply passes to a program, and find the faulty one after an error
verify          the rules of a well-formed program, one function a rule
verify_training  its rules about training: backward ops, gradients, declared lifespans
"""
