"""Rows: where they come from, and how steps take them.

data           the program's own rows, read while it runs: columns and splits of its data file; the compiler looks at
               that file when a program is saved (compiler.build: columns, last_batch)
data_files     one data file or several as one: arrays in memory, or columns that stay in their files
stored_column  a column that stays in its files, and is read row by row
rows           rows: the values of feeds, from which the steps of a run take their batches
by_feed        what a caller gives as rows: arrays by feed, or a frame of pandas
orders         which row stands at which position
ragged         columns whose rows are of unequal length, padded when a step takes them
ragged_data    such columns of a data file, by the names of their arrays
ragged_given   such rows that are given as lists
buckets        rows by length: every step takes rows of one
parts          rows with the bindings that take them, by length
row_wise       whether each row that an entry gives is made of the same row of its feeds
filled_up      the last row once more, as often as a step needs
fingerprint    by which a run that goes on knows the rows that it began with
windows        rows shuffled within windows, so that memory does not grow with their number
source         rows that come one after another, nobody knows how many
streamed       the rows of a source, as steps take them
read_ahead     the rows of the next step, read on a thread while a step is made
encoding/      how values became numbers, kept with packed rows
casts          the one cast that rows go through unasked
"""
