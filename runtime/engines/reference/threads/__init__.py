"""The ways to call the ops of one step, and the threads they take.

in_order   one call after the other, and the interface of every way
lanes      two threads for a step that moves tensors to a file and back
in_phases  several threads that share the ops of phases
stopwatch  calls that note their begin, end and thread
"""
