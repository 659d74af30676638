"""What every operation is: its signature, its result types and its gradient.

The body of an operator's declaration infers types; it computes nothing. `registry/ops/` has the
operators by family, `runtime/engines/reference/kernels/` their kernels under the same names.

ops            the operators, a module for each family
op             how an operator is declared; operator is what is declared, table has all by name
signature      the schema, read from a Python signature
value          a tensor of a block under construction, with Python's operators; indexing is x[...]
block          a block that ops are appended to
settings       numbers that may be settings: what a use of one asks of it
shapes         questions about shapes; windows about those of convolution and pooling
gradients      ops that compute gradients
traits         facts about an op that passes ask for
spelled        functions that are spelled with operators; composite has the gradients of such
other_names    what NumPy, ONNX and PyTorch call what is here
numpy_calls    what NumPy is told that is called with tensors
audit          what must hold of every operator, looked at when this is imported
errors         OpError, and the line that it begins with
"""

from registry import ops as ops
from registry.audit import audit
from registry.block import Block as Block
from registry.errors import OpError as OpError
from registry.errors import require as require
from registry.gradients import gradient_ops as gradient_ops
from registry.op import OPS as OPS
from registry.op import Op as Op
from registry.op import op as op
from registry.value import STATE as STATE
from registry.value import Operand as Operand
from registry.value import Value as Value

audit()
