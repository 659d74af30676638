"""Runs of one program by several processes, the *ranks* of an MPI job, with the bits of one process.

tree        the balanced tree in which the shards of a batch are added, and the parts of it that a rank has
deal        the step of a rank: the ops of its own shards, and exchanges where other ranks have the rest
cut         the update of an optimizer's states, each rank for its elements
pieces      the states that are cut, made whole again for checkpoints and hashes
exchange    the sum of what all ranks have, in the order of the tree
exchanges   the exchanges of a step with their bytes, for those who read it
group       the ranks of a job: nonblocking calls that are polled, so that deadlines and signals act
clock       the seconds for which a process waits
current     the group of this process
join        the start: a process becomes a rank
agree       the comparison of everything that ranks must have in common
spread      the steps of an evaluation, dealt out to the ranks
watcher     a parent process that notices a rank which ends early
"""
