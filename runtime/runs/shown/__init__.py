"""What prompts and notebooks are shown of a run, by name.

state_view    the states of a run, to read and to write
fetched       what an entry fetched
html_tables   both, and a run with its entries, as tables
"""
