"""The types of the results of every operator.

The registry infers by these rules the types of a program that is built, and the runtime checks by them every op of a
file before anything is allocated.

arrangement    tensors without operands, and rearrangements of elements
images         convolution and pooling of images, and extraction of their windows
integers       numbers of few bits with scales, and exact products of those of eight bits
losses         losses and accuracy that have kernels of their own
matrices       products of matrices, dense and sparse, triangles, and decompositions
normalisation  softmax, and normalisations over a batch, over last axes, and over groups of channels
places         elements taken from, and written to, places that are data
pointwise      pointwise functions, activations, copies, and choices between two tensors
randomness     random numbers and choices: functions of the seed, the stream of an op, the step and the position
reductions     reductions, broadcasting, running sums, and orders along axes
sequences      recurrent layers and attention
shards         marks of the results that the shards of a batch have in common, and their sums
updates        optimizer updates of a parameter w by its gradient dw, once per step

rule           the table of rules, and the rules of pointwise functions
shapes         checks and computations of shapes that rules share
windows        windows that slide over images
"""

from prograd_proto.result_types import arrangement as arrangement
from prograd_proto.result_types import images as images
from prograd_proto.result_types import integers as integers
from prograd_proto.result_types import losses as losses
from prograd_proto.result_types import matrices as matrices
from prograd_proto.result_types import normalisation as normalisation
from prograd_proto.result_types import places as places
from prograd_proto.result_types import pointwise as pointwise
from prograd_proto.result_types import randomness as randomness
from prograd_proto.result_types import reductions as reductions
from prograd_proto.result_types import sequences as sequences
from prograd_proto.result_types import shards as shards
from prograd_proto.result_types import updates as updates
from prograd_proto.result_types.rule import RULES as RULES
from prograd_proto.result_types.rule import Parameters as Parameters
from prograd_proto.result_types.rule import Rule as Rule
from prograd_proto.result_types.rule import Types as Types
from prograd_proto.result_types.rule import parameters_of as parameters_of
from prograd_proto.result_types.rule import read_rule as read_rule
