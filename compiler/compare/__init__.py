"""What differs between two programs, in words.

block_differences  what differs between two blocks, one sentence a line
differences        what differs between two programs: states, data, the run, and each entry
field_differences  what differs between two messages or values, one sentence a line: `w: trainable: true -> false`
matched_ops        which op of one block is which op of another
"""
