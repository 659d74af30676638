"""A run in files: written while it trains, and read back to go on.

checkpoint         all states of a run and its position, in one safetensors file
cost               the time that checkpoints take, and a warning where it is most of a run
checkpoint_folder  a folder of checkpoints: named by step, the newest few kept
classes            hashes of the classes that numbers stand for
continuation       the continuation of a run: to the end of its plan, or by a plan for other rows
pickled            a run as one object for `pickle` and `copy`
same_rows          the check that a run goes on with the rows that it began with
folder_lock        a lock by which one process at a time writes into a folder
"""
