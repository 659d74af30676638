"""The evidence of a run: what it read, a chain of hashes through its steps, and what it left, in one statement.

chain      hashes of the states at intervals, and of the metrics of each step
statement  the statement in in-toto's form, with the record of the run
envelope   the signature around it, in DSSE's form
inputs     the files that a run reads, by hashes of their pieces
"""
