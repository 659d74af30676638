"""Subjects of tests: programs, models and steps, and short functions that build and run them.

evaluate            a function of Values on arrays, and its gradient: for tests of single operators
values              numbers for the values of a program under construction; derivatives of any order; lines of tests
cases               a sample as a program, and the check of its gradients by differences
one_pass            a small program before and after one pass
language_model      small language models as folders of Hugging Face's form
encoders            small encoders of texts as folders of Hugging Face's form
models              small models twice: as ops, and as NumPy with gradients by hand
budgets             networks whose step a budget makes smaller
hazards             programs whose ops may run in several orders
spilling            programs that move tensors to the file beside the arena and back
odd_numbers         operators with NaN, infinities, zeros and denormals, by both engines
odd_networks        random programs with much to simplify
random_programs     strategies for programs: any message of the schema
random_networks     random networks at nearly ordinary sizes, as training programs
random_training     strategies for training programs
families            every family of operators at ordinary sizes, as training programs
ways                ways to compile and run a program that change no bit
small_programs      small training runs in folders of their own, with data
steps               steps of a compiled program, by the executor and by the oracle
serving             a server of predictions in a thread of the test, and clients of it
sources             the syntax trees of source files
commands            both commands, called in the process of the test; the sentence of an error
cluster             commands on a Dask cluster that loses a worker
ranks               runs of several processes, and the launchers that start them
cut_optimizers      trainings by the ranks of a job that cut the states of every optimizer
"""
