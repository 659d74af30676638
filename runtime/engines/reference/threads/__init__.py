"""The ways to call the ops of one step, and the threads they take.

at_once    on several threads: what is worth one is tried, and then whether that is faster than in order
contest    which of two ways to run a step is faster: found by turns, and again from time to time
in_order   one call after the other, and what every way has in common
lanes      two threads for a step that moves tensors to a file and back
stopwatch  calls that note when they began, when they ended, and on which thread
tasks      from ops that wait for each other to tasks that are worth a thread
worklist   threads that run the tasks of a step, each task as soon as those before it are done
"""
