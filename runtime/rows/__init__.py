"""Rows: their sources, and the steps that take them.

data           the program's own rows, read while it runs: columns and splits of its data file; the compiler reads
               that file when a program is saved (compiler.build: columns, last_batch)
data_files     one data file or several as one: arrays in memory, or columns that stay in their files
stored_column  a column that stays in its files, and is read row by row
rows           the values of feeds, from which the steps of a run take their batches
by_feed        rows from a caller: arrays by feed, or a frame of pandas
orders         the order of rows: the number of the row at each position
ragged         columns whose rows are of unequal length, padded when a step takes them
ragged_data    such columns of a data file, by the names of their arrays
ragged_inputs  such rows as lists from a caller
by_names       rows of a file for a program that describes none
buckets        rows by length: every step takes rows of one length
parts          rows with the bindings that take them, by length
row_wise       the proof that each row of an entry's fetches depends on the same row of its feeds alone
filled_up      the last row repeated to fill a step
out_of_range   numbers out of range, with the row that has them, or the metric that is full
fingerprint    the fingerprint by which a resumed run recognises its rows
windows        rows shuffled within windows, so that memory does not grow with their number
source         rows that arrive one after another, in unknown number
streamed       the rows of a source, as steps take them
read_ahead     the rows of the next step, read on a thread during a step
encoding/      the mapping of values to numbers, kept with packed rows
tables/        tables: files of new rows, read in pieces, and values of Python as columns
table_names    names of files that are tables or images
new_rows       new rows of a table or of images, encoded as the program's own
confusion      arrays that count predictions by label and class
casts          the implicit casts of rows
"""
