"""Displays of a run for prompts, notebooks and terminals.

state_view       the states of a run by name, to read and to write
fetched          the fetches of an entry by name
training_result  the result of a training: a table of its epochs, and the metrics of the states at its end
html_tables      these and a run with its entries, as tables
train_to_end     a training from its first event to its last, with progress on stderr, and its result
progress         progress of a training on stderr: a bar, plain lines, JSON lines, or nothing
bar              the bar of steps on a terminal, and the items that fit beside it
plain_lines      sentences, and a plain line for each epoch
event_lines      lines about events, as parts that a narrow terminal shows below each other
"""
