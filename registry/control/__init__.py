"""Control flow: functions of the user that become blocks inside ops.

tracing     cond, scan, while_loop and map: call the user's functions and append the ops
structure   tensors and tuples of tensors, as lists and back
bodies      blocks inside ops: their arguments, the addition of an op with blocks, copies of their ops
paths       along which operands the outputs of such ops have gradients
gradients   the gradients of cond, scan and while_loop, as ops with blocks, and the declarations of these ops
control_op  what passes know of these ops: the same as of other operators
"""

from registry.control import gradients as gradients
from registry.control.control_op import ControlOp as ControlOp
from registry.control.tracing import cond as cond
from registry.control.tracing import map as map
from registry.control.tracing import scan as scan
from registry.control.tracing import while_loop as while_loop
