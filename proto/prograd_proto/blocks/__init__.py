"""A block is read once: what it says, as Python's lists, handed from pass to pass and kept true by who edits it.

reading  the columns of a block: ops, operands, results, types, attributes
"""

from prograd_proto.blocks.reading import Reading as Reading
