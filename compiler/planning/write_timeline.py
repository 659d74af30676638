"""Conversion of a timeline to a block: recomputed ops get ids and tensors of their own.

1. The first run of an op is the op itself. Every other run is a copy, which names it in `recompute_of`, draws from the
   same random stream, and has the same stage and line.
2. A view is repeated wherever its value was.
3. Values are moved to the file and back by the ops `spill` and `reload`; the end of the step reads the copy that lasts
   until then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.passes.eliminate_dead_ops import drop_dead_ops
from compiler.planning.timeline import RELOAD, SPILL, Timeline
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.files import copy_of
from runtime.step import is_view


def write_timeline(block: BlockAnalysis, timeline: Timeline) -> None:
    """Let the ops of a block, from which the timeline was made, run as in the timeline."""
    writer = _Writer(block, timeline)
    for i in timeline.order:
        writer.write(i)
    writer.rename_ends()
    del block.desc.ops[:]
    block.desc.ops.extend(writer.ops)
    block.desc.tensors.extend(writer.tensors)
    block.forget()
    drop_dead_ops(block)
    _name_first_ones(block)


@dataclass
class _Writer:
    """The ops written so far, and the tensor of each value."""

    block: BlockAnalysis
    timeline: Timeline
    ops: list[pb.OpDesc] = field(default_factory=list[pb.OpDesc])
    tensors: list[pb.TensorDesc] = field(default_factory=list[pb.TensorDesc])

    def __post_init__(self) -> None:
        self._value_of = self.timeline.graph.value_of
        self._types = {tensor.name: tensor for tensor in self.block.tensors}
        self._view = {op.outputs[0]: op for op in self.block.ops if is_view(op.type)}
        self._tensor = {(self._value_of[p.tensor], p.tensor): p.tensor for p in self.block.parameters}
        self._root: dict[int, str] = {}  # the first tensor of a value; the others are views of it
        for name, value in self._value_of.items():
            self._root.setdefault(value, name)
        self._taken = set(self._types)
        self._ids = {op.id for op in self.block.ops}
        self._next_id = max(self._ids, default=0) + 1

    def write(self, i: int) -> None:
        """Write the op number i of the timeline."""
        if self.timeline.ops[i] in (SPILL, RELOAD):
            self._move(i)
            return
        timeline, desc = self.timeline, self.block.ops[self.timeline.ops[i]]
        values = {timeline.values[value]: value for value in timeline.graph.reads[i]}
        written = timeline.graph.writes[i] or timeline.graph.reads[i][:1]
        self._append(desc, values, written)

    def rename_ends(self) -> None:
        """Let the end of the step read the copies that last until then."""
        timeline, lasts = self.timeline, self.timeline.graph.lasts
        lasting = {timeline.values[copy]: copy for copy in range(len(lasts)) if lasts[copy]}
        for end in (*self.block.desc.fetches, *self.block.desc.updates):
            end.tensor = self._read(end.tensor, lasting)

    def _move(self, i: int) -> None:
        """Write an op that copies a value to the file or back, with the stage and the line of the value's op."""
        timeline = self.timeline
        [read], [written] = timeline.graph.reads[i], timeline.graph.writes[i]
        spills = timeline.ops[i] == SPILL
        value = timeline.values[read if spills else written]
        i = timeline.made_by[value]
        maker = self.block.ops[i] if i >= 0 else pb.OpDesc(stage=pb.STAGE_FORWARD)
        root = self._root[value]
        old = self._tensor[read, root]
        new = self._again(root, "spilled" if spills else "again")
        self._tensor[written, root] = new
        op = pb.OpDesc(id=self._next_id, type="spill" if spills else "reload", inputs=[old], outputs=[new])
        op.stage, op.location = maker.stage, maker.location
        self._next_id += 1
        self.ops.append(op)

    def _append(self, desc: pb.OpDesc, values: dict[int, int], written: list[int]) -> None:
        """Append an op, or a copy if it is already used, that reads and writes these values."""
        op = copy_of(desc)
        del op.inputs[:], op.outputs[:]
        op.inputs.extend([self._read(name, values) if name else "" for name in desc.inputs])
        if desc.id in self._ids:
            self._ids.remove(desc.id)
            op.outputs.extend(desc.outputs)
        else:
            op.id, op.recompute_of = self._next_id, desc.recompute_of or desc.id
            self._next_id += 1
            op.outputs.extend([self._again(name) for name in desc.outputs])
        self._tensor.update(
            ((value, old), new) for value, old, new in zip(written, desc.outputs, op.outputs, strict=True)
        )
        self.ops.append(op)

    def _read(self, name: str, values: dict[int, int]) -> str:
        value = values[self._value_of[name]]
        if (value, name) not in self._tensor:
            self._append(self._view[name], values, [value])
        return self._tensor[value, name]

    def _again(self, name: str, word: str = "again") -> str:
        number, new = 2, f"{name}.{word}"
        while new in self._taken:
            number, new = number + 1, f"{name}.{word}{number}"
        self._taken.add(new)
        old = self._types[name]
        self.tensors.append(pb.TensorDesc(name=new, dtype=old.dtype, shape=old.shape))
        return new


def _name_first_ones(block: BlockAnalysis) -> None:
    """Let the first repetition of an op that nothing needed before become the op that others repeat."""
    first = {op.id: op.id for op in block.ops if not op.recompute_of}
    for op in block.ops:
        if op.recompute_of:
            op.recompute_of = first.setdefault(op.recompute_of, op.id)
            if op.recompute_of == op.id:
                op.recompute_of = 0
