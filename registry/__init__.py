"""Operators: the signature and the gradient of every operation.

`registry/ops/` has the operators by family, `prograd_proto.result_types` the types of their results,
and `runtime/engines/reference/kernels/` has their kernels under the same names.

ops            the operators, a module for each family
op             declares operators; `operator` has the class, `table` has all operators by name
signature      the schema, read from a Python signature
value          a tensor of a block under construction, with Python's operators; `indexing` implements x[...]
arrays         small arrays as constants
block          a block that ops are appended to
settings       checks of numbers that may be settings
control        conditions and loops: functions that become blocks inside ops
gradients      append the ops that compute gradients
traits         facts about an op that passes ask for
spellings      names of operators' parameters in Python that differ from those of attributes in files
spelled        functions that append existing operators; `composite` has their gradients
other_names    the names that NumPy, ONNX and PyTorch use for the operators
numpy_calls    NumPy functions that are called with tensors
audit          checks of every operator, run on import
errors         OpError, and the source line that its message begins with
"""

from registry import ops as ops
from registry.audit import audit
from registry.block import Block as Block
from registry.errors import OpError as OpError
from registry.errors import require as require
from registry.op import OPS as OPS
from registry.op import Op as Op
from registry.op import op as op
from registry.value import STATE as STATE
from registry.value import Operand as Operand
from registry.value import Value as Value

audit()
