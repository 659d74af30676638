"""Random trainings with NaN or Inf injected at a random op and step: no success with NaN, no file that has it.

draw      the random choices of a trial, and its program
judge     the trial by the command, by the library and by an estimator
"""
