"""Each operator and spelled function in PyTorch, written from its description: nothing of prograd is imported here.

A function takes what a call of prograd takes, tensors for tensors, and gives PyTorch's tensors. 16-bit floats are
float32 tensors that hold what can be represented; gradients pass a cast as they are.
"""

from fuzz.torch_ops import arrays as arrays
from fuzz.torch_ops import elements as elements
from fuzz.torch_ops import images as images
from fuzz.torch_ops import layers as layers
from fuzz.torch_ops import losses as losses
from fuzz.torch_ops import reductions as reductions
from fuzz.torch_ops import sequences as sequences
from fuzz.torch_ops import updates as updates
from fuzz.torch_ops.table import NOT_COMPARED as NOT_COMPARED
from fuzz.torch_ops.table import TORCH as TORCH
