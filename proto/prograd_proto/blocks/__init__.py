"""Blocks as Python lists: read once, handed from pass to pass, and updated by every edit.

block_analysis one block: its columns, and the edits that update them
answers    the known answers about a block
questions  derived facts of a block, such as a graph: computed once, dropped when an edit may change them
kinds      ops of one kind: equal in type, attributes and the types of operands and results
use_def    use-def chains: the op that defines each tensor, and the ops that use it
stages     forward or backward: the pass of an op
block_analyses the blocks of a program
control    the ops that run blocks: the order of their operands, and their types
walk       blocks inside ops
"""

from prograd_proto.blocks.block_analyses import BlockAnalyses as BlockAnalyses
from prograd_proto.blocks.block_analysis import BlockAnalysis as BlockAnalysis
from prograd_proto.blocks.kinds import Kind as Kind
from prograd_proto.blocks.questions import question as question
from prograd_proto.blocks.use_def import Chain as Chain
from prograd_proto.blocks.use_def import UseDef as UseDef
