"""The readable form of a program: one op a line, and it parses back to the same bytes.

    block 3
      parameter %x: float32[32, 784] <- feed x
      parameter %w: float32[784, 10] <- state w
      %y: float32[32, 10] = matmul(%x, %w) {transpose_a=false, transpose_b=false}  # forward, op 3, train.py:31

docs/format.md has the grammar. `writing` and `reading` process a program line by line. `ops` has the line of an op, and
`tables` has its inline parts: the types of tensors and the user's source lines. `words` and `values` write and read
names, numbers, types and attributes.
"""

from prograd_proto.text.reading import from_text as from_text
from prograd_proto.text.writing import block_owners as block_owners
from prograd_proto.text.writing import block_to_text as block_to_text
from prograd_proto.text.writing import to_text as to_text
