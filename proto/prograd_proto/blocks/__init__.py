"""What a block says, read once: handed from pass to pass, and kept true by who edits the block.

reading    one block: its columns, and the edits that keep them true
questions  what else is asked of a block, such as a graph: answered once, forgotten when an edit may change the answer
kinds      ops of one kind: equal in type, attributes and the types of operands and results
use_def    use-def chains: which op defines each tensor, and which use it
stages     forward or backward: the pass of an op, and of what touches a tensor
readings   the blocks of a program
walk       into the blocks inside ops, and the refusal of who does not go there
"""

from prograd_proto.blocks.kinds import Kind as Kind
from prograd_proto.blocks.questions import question as question
from prograd_proto.blocks.reading import Reading as Reading
from prograd_proto.blocks.readings import Readings as Readings
from prograd_proto.blocks.use_def import Chain as Chain
from prograd_proto.blocks.use_def import UseDef as UseDef
