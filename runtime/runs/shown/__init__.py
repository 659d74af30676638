"""Displays of a run for prompts and notebooks, by name.

state_view    the states of a run, to read and to write
fetched       the fetches of an entry
html_tables   both, and a run with its entries, as tables
"""
