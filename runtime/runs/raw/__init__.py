"""Rows as a table has them, and predictions as people read them.

raw_rows  rows of a table, encoded for an entry, and its fetches as values again
single_rows  few rows as objects, encoded value by value
answers   the meaning of the fetches of a prediction: classes, or numbers of a column
"""
