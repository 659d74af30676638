"""An IR builder in which loops read as loops: typed values with Python's operators, written down as LLVM's text.

types     what a value is: a kind of number of so many bits, alone or in lanes; numbers as LLVM spells them
value     a value and its operators
halves    floats of 16 bits, widened and narrowed
words     what has no operator: multiply-add, choice, roots, conversions, lanes
function  instructions, memory, branches and calls of one function
loop      its loops
module    functions, what they declare, and the whole as text
"""

from runtime.codegen.ir.function import Function as Function
from runtime.codegen.ir.loop import Loop as Loop
from runtime.codegen.ir.module import Module as Module
from runtime.codegen.ir.types import BFLOAT16 as BFLOAT16
from runtime.codegen.ir.types import BOOL as BOOL
from runtime.codegen.ir.types import DTYPES as DTYPES
from runtime.codegen.ir.types import FLOAT16 as FLOAT16
from runtime.codegen.ir.types import FLOAT32 as FLOAT32
from runtime.codegen.ir.types import FLOAT64 as FLOAT64
from runtime.codegen.ir.types import INT8 as INT8
from runtime.codegen.ir.types import INT32 as INT32
from runtime.codegen.ir.types import INT64 as INT64
from runtime.codegen.ir.types import UINT8 as UINT8
from runtime.codegen.ir.types import UINT16 as UINT16
from runtime.codegen.ir.types import UINT32 as UINT32
from runtime.codegen.ir.types import UINT64 as UINT64
from runtime.codegen.ir.types import Type as Type
from runtime.codegen.ir.types import pointer as pointer
from runtime.codegen.ir.value import Index as Index
from runtime.codegen.ir.value import Operand as Operand
from runtime.codegen.ir.value import Value as Value
