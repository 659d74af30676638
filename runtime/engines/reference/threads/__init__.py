"""The ways to call the ops of one step, and the threads they take.

at_once    on several threads: measure the ops, then test if that is faster than in order
contest    a comparison of two ways to run a step by alternating them, repeated from time to time
in_order   one call after the other, and the interface of every way
lanes      two threads for a step that moves tensors to a file and back
stopwatch  calls that note their begin, end and thread
tasks      from ops that depend on each other to tasks that are worth a thread
worklist   threads that run the tasks of a step, each task as soon as its predecessors are done
"""
