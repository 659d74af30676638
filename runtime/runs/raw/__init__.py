"""Rows as callers and tables have them, and predictions as people read them.

raw_rows  rows of a table, encoded for an entry, and its fetches as values again
image_rows  images, decoded for an entry, and its fetches as values
named_rows  rows of a file, a folder of images or a split, by its name
single_rows  few rows as objects, encoded value by value
column_order  columns of frames that were trained on, and frames with others
in_memory  arrays, frames and tuples as arrays by feed, and the rows to validate on
decoding  fetched numbers as the values that they stand for
answers   the meaning of the fetches of a prediction: classes, or numbers of a column
"""
