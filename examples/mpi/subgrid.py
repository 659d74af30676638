"""A network that learns the subgrid tendency of the two-scale Lorenz model, from the arrays of a host in Fortran.

Writes subgrid.pb: a batch of 64 rows in 4 shards of 16, so 1, 2 or 4 processes end with the same bits.
"""

from pathlib import Path

from prograd import Program, adam, layers, ops

program = Program("subgrid", seed=1)
near = program.input("near", "float32", ("batch", 3))  # the slow variable at a point, and at its two neighbours
tendency = program.input("tendency", "float32", ("batch", 1))  # of the fast variables at this point
hidden = ops.tanh(layers.dense(near / 10.0, "hidden", 32))
guess = layers.dense(hidden, "output", 1)
program.minimize(ops.mean(ops.square(guess - tendency)), adam(5e-3))
program.outputs(guess=guess)
program.compile(batch=64, shards=4).save(Path(__file__).with_suffix(".pb"), force=True)
