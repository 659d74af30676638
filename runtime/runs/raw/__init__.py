"""Rows as callers and tables have them, and predictions as people read them.

raw_rows  rows of a table, encoded for an entry, and its fetches as values again
single_rows  few rows as objects, encoded value by value
column_order  columns of frames that were trained on, and frames with others
in_memory  arrays, frames and tuples as arrays by feed, and the rows to validate on
answers   the meaning of the fetches of a prediction: classes, or numbers of a column
"""
