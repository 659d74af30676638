"""The observers of a training: the judgement by metrics, and the callbacks of its caller.

judge      the best states, the early end, and rates that are reduced
watches    the best value of a metric so far, and the values since without improvement
finite_states  a look at the states that a training changes, before they are written
called     the methods that a training calls at its events
judged     callbacks that the run itself judges
calls      the calls of callbacks at the events of a training
callbacks  the callbacks that a caller passes to a training of a run
"""
