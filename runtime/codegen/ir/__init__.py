"""An IR builder in which loops read as loops: typed values with Python's operators, written as LLVM's text.

types     the type of a value: kind of number, bits and lanes; numbers as LLVM spells them
value     a value and its operators
halves    16-bit floats: widening and narrowing
words     operations without an operator: multiply-add, selection, roots, conversions, lanes
function  instructions, memory, branches and calls of one function
loop      loops of a function
module    functions, their declarations, and the text of all of them
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
from runtime.codegen.ir.types import INT32 as INT32
from runtime.codegen.ir.types import INT64 as INT64
from runtime.codegen.ir.types import UINT8 as UINT8
from runtime.codegen.ir.types import UINT32 as UINT32
from runtime.codegen.ir.types import UINT64 as UINT64
from runtime.codegen.ir.types import Type as Type
from runtime.codegen.ir.types import pointer as pointer
from runtime.codegen.ir.value import Index as Index
from runtime.codegen.ir.value import Operand as Operand
from runtime.codegen.ir.value import Value as Value
