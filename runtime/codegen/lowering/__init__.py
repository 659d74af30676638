"""From a bound block to groups with places in memory: a list of passes, each of which can be printed.

view    how a tensor lies in the memory of another one
nodes   read: ops with their forms; views are the tensors that they are of
decompositions ops that are spelled with others
additions  the order in which each product adds
views     ops that pick elements out of a tensor as how others read that
layers  recurrent layers with what is around them
groups  fuse: nodes that are computed by one nest of loops
fusion_legality what may be computed in one nest
recompute what is cheap is computed again where it is read, not stored
bottlenecks  three convolutions as one group
order   updates of states after all that reads the old value
prepack  what follows from states alone is made when they have changed, not in every step
tiled_chains groups that follow each other strip by strip
phases  what may be computed at the same time
chunks  stretches of the work of a stage, for threads to share
schedule   the order of groups with chains beside each other, their phases, and what is written over states
group_kernel a group with names of its own, so that equal groups are equal
instructions  how many a node is
memory  place: what still needs memory after fusion
"""
