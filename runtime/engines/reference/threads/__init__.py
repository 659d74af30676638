"""Threads that run the ops of one step.

contest    which of two ways to run a step is faster: found by turns, and again from time to time
lanes      two threads for a step that moves tensors to a file and back
stopwatch  calls that note when they began, when they ended, and on which thread
tasks      from ops that wait for each other to tasks that are worth a thread
worklist   threads that run the tasks of a step, each task as soon as those before it are done
"""
