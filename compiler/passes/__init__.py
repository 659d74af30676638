"""The passes: `pipeline` is their table, with the reasons for its order; one file a pass, named like the pass.

use_inference_forms  outside training, ops take their inference form
eliminate_dead_ops   drop ops whose results nothing reads
fake_quantize        train with the numbers that integers of eight bits stand for, if it is asked for
mixed_precision/     round the operands of products to bfloat16, if it is asked for
bind_dimensions      make a static block of every binding
leave_frozen         drop ops that only train frozen parameters
split_batch          compute the batch of a training step shard by shard, and add what the shards have in common
hoist_invariants     move what is equal in all iterations of a loop before the loop
batch_products       make products of a scan that its carries do not wait for once, for all iterations
recompute_in_loops   let the gradient of a loop compute again what the loop would store, for a budget
fold_constants       compute at compile time the values that are equal in every step
compute_on_codes/ compute with codes of eight bits where the numbers that they stand for would be computed with
simplify/            remove ops whose result already exists
merge_identical      compute identical ops once
order_ops            run the ops in the order that needs the least memory, among a few
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

To add a pass:

1. A file in `compiler/passes/`. It opens with its algorithm as numbered sentences, then defines the function that
   edits a program in place, then the functions that this one calls, in the order of the calls. The pass receives
   `BlockAnalyses` and walks `program.bound`: the blocks that run and those inside their ops. It asks a
   `BlockAnalysis` for columns, use-def chains (`block.use_def`) and the functions marked `question`. It edits
   through the methods of the `BlockAnalysis`, or it edits the message and then reports the edit (`read_again`,
   `ends_edited`, `forget`). A pass that removes ops walks the block with `rewrite`, which redirects the readers of
   removed tensors.
2. Its position in `PASSES` in `compiler/passes/pipeline.py`, or in `PLANNING` in `compiler/planning/pipeline.py`:
   with the facts that it requires of the program, establishes and invalidates, each with the reason. The import
   fails if the order violates them. The keyword parameters of its function, with their defaults, are its options.
3. `verify` runs after the last pass. If it finds an error, it runs again before the first and after each pass, to
   name the faulty pass. If your pass makes something that no rule checks, add a rule: a generator in
   `compiler/passes/verify.py` with a docstring that errors quote.
4. Tests: the change on the smallest program that shows it, a program that the pass must not change, idempotence,
   and equal bits of the results with and without the pass. `compiler compile program.pb --dump-after NAME` prints
   the program after the pass.
"""
