"""What every operation is: its signature, its result types and its gradient.

The body of an operator's declaration infers types; it computes nothing. `registry/ops/` has the
operators by family, `runtime/engines/reference/kernels/` their kernels under the same names.
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
