"""Modules of PyTorch as programs, through torch.export.

from_torch      the function that users call
import_module   an exported graph as a program: placeholders, outputs and updates of buffers
export          torch.export in both modes, and what torch itself lacks or cannot export
modes           training and evaluation as two graphs, or as one that serves both
assignments     buffers and other attributes that forward assigns
alpha_dropout   alpha dropout, which evaluation leaves out
autocast        regions of torch.autocast as mixed precision
experts         mixtures of experts of transformers
checks          what torch.export drops or fixes, found and refused
graph           the walk over the nodes
halves          arithmetic in float16 and bfloat16, by float32
inlined         graphs that need no decomposition
messages        what PyTorch prints, and sentences of its errors
no_gradient     regions of torch.no_grad
nodes           questions about one node
operators       the operators of ATen in terms of prograd's
packed          packed sequences, which recurrent layers read by lengths
pairs           complex tensors as pairs of real ones
peepholes       patterns of several nodes that one op computes
picked          rows that a mask of data picks
constants       values that depend on no input
replaced        functions that torch.export cannot trace
states          parameters and buffers
training        losses, optimizers and schedulers
sizes           PyTorch's symbols of sizes
trips           the number of trips of a loop that counts
places          module and source line of a node
"""

from compiler.frontends.torch.from_torch import from_torch as from_torch
