"""The code generator: a bound block becomes NativeCode, without an engine, memory or addresses.

A package imports only packages above it:

machine    the target of code: the table of instruction sets, their registers, the caches; their names as engines are
           in runtime/engines/choice.py, and the tile sizes for registers in kernels/matmul/plan.py
board      the words by which the threads of a step share its chunks
actions    the actions of the driver that make loops and conditions of phases
code       NativeCode: a compiled step as a value, with symbols instead of addresses
code_bytes NativeCode as bytes, and read again
code_bounds the check that NativeCode from a file fits its block
elf        object files of NativeCode, read: sections, symbols, relocations
costs      the cost model: every parameter by which kernels are priced, in cycles; benchmarks/costs.py measures each
ir/        a package of its own: the builder that writes LLVM's IR
math/      a package of its own: elementary functions; benchmarks/minimax.py fits their polynomials
kernels/   a package of its own: loops for products, convolutions, attention, recurrent layers and copies
rules/     a package of its own: the lowering rule of each operator, one family a file
groups/    a package of its own: the nodes of a block, groups of them, and their operands
emit/      a package of its own: the kernel steps of a group, and their functions
lowering/  a package of its own: from a block to groups with offsets in memory, by a table of passes
lower      the lowering of a block by all passes
explain    lowering and its result in words
control_phases the phases of an op with blocks, between actions
control_code the tables of a step and of the blocks inside its ops
assemble   from a lowered block to NativeCode

Files that a change touches, besides tests and pages:

* an instruction set: its target in `INSTRUCTION_SETS` in machine, and its name in runtime/engines/choice.py. If
  `MAX_TILE_ROWS` in kernels/matmul/plan.py has no row for its number of registers with or without FMA: that row.
* a cost parameter: its line in costs, and in benchmarks/costs.py the function that measures it.
* an elementary function: its file in math, with coefficients from benchmarks/minimax.py, and its rule in rules.
* the lowering rule of an operator: its line in the family's file in rules.
* a variant of a convolution: its class in kernels/conv, and its entry in the list of kernels/conv/variants.py.
* a pass: its file in lowering/passes, and its position in lowering/passes/pipeline.py.
* a field of NativeCode: its line in code, its value in assemble, its form in code_bytes if it is a table, and its
  bounds in code_bounds.
"""
