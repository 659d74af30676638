"""Moves: elements that are copied from one position to another, or filled, as plain bits of any dtype.

move      a box of elements, its source and its destination
line      a line of elements as vectors
steps     the moves of an op as work items that threads share
writing   one move as loops: lines, squares transposed in registers, or element by element
"""

from runtime.codegen.kernels.moves.line import line as line
from runtime.codegen.kernels.moves.move import Layout as Layout
from runtime.codegen.kernels.moves.move import Move as Move
from runtime.codegen.kernels.moves.move import Strided as Strided
from runtime.codegen.kernels.moves.move import row_major as row_major
from runtime.codegen.kernels.moves.steps import move_steps as move_steps
