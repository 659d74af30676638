"""Marks of what the shards of a batch have in common: gradients, reports and running statistics.

1. What depends on the rows of a batch is computed by each shard. Updates and reports of training are computed once.
2. So each tensor that passes from the first to the second gets an `over_shards`: gradients and scalars are means over
   the shards, weighted by what counts in them, new running statistics are means, and terms of totals are summed.
3. Anything else that an update or a report reads has no meaning that shards keep, and is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Set
from typing import Final

from compiler.analyses.rows_of_batch import MARK, of_rows, op_has_symbol, with_symbol
from compiler.build.last_batch import row_symbol
from compiler.build.whole_numbers import require_whole
from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import FLOATS
from registry import Block, ops

_log = logging.getLogger("prograd")

MAX_SHARDS: Final = 64
"""Upper bound on the shards of a batch: a bound block has the ops of each."""


def mark_shards(
    program: pb.ProgramDesc, shards: int, losses: Mapping[str, str], weights: Mapping[str, Set[str]]
) -> None:
    """Mark what the shards of a batch have in common in the training block, edited in place.

    Args:
        program: a program without bindings; block 0 is the training block.
        shards: the shards of a batch.
        losses: for each gradient of a parameter, its loss.
        weights: for each loss and report, the scalars that weight its terms.

    Raises CompileError for a program whose shards would compute something else than its batches.
    """
    require_whole("compile", least=None, shards=shards)
    if not 1 <= shards <= MAX_SHARDS:
        raise CompileError(f"shards={shards}; a batch has 1 to {MAX_SHARDS} shards")
    train = next((entry for entry in program.entries if entry.name == "train"), None)
    rows = row_symbol(program)
    if train is None or rows is None:
        raise CompileError(f"shards={shards}: the program trains on no rows, whose number is a symbol of all inputs")
    if any(state.slot == "gradient" for state in program.states):
        raise CompileError(
            f"shards={shards}: the program also has accumulate; shards are computed one after another in a step, so "
            "leave accumulate out and multiply the batch and the shards by it"
        )
    block = program.blocks[train.source_block]
    if any(op.type == MARK for op in block.ops):
        raise CompileError(f"shards={shards}: the program has shards already; build it anew for another number")
    _Marking(block, program, shards, rows, losses, weights).mark()


class _Marking:
    """The edit of one block; the arguments are those of `mark_shards`."""

    def __init__(
        self,
        desc: pb.BlockDesc,
        program: pb.ProgramDesc,
        shards: int,
        rows: str,
        losses: Mapping[str, str],
        weights: Mapping[str, Set[str]],
    ) -> None:
        self._desc, self._blocks, self._rows, self._shards = desc, program.blocks, rows, shards
        self._losses, self._weights = losses, weights
        self._of_rows = of_rows(desc, program.blocks, rows)
        self._passing = {state.name for state in program.states if state.lifespan == pb.LIFESPAN_EPOCH}
        self._state_of = {p.tensor: p.state for p in desc.parameters if p.WhichOneof("source") == "state"}
        self._makers = {name: op for op in desc.ops for name in op.outputs}
        self._block = Block(desc)
        self._marks: dict[str, str] = {}

    def mark(self) -> None:
        desc = self._desc
        for loss in dict.fromkeys(self._losses.values()):
            if loss in self._of_rows and not self._weight(loss):
                self._require_mean(loss)
            if self._shards > 1:
                self._warn_of_pairs(loss)
        self._mark_updates()
        for update in desc.updates:
            if update.tensor in self._of_rows:
                update.tensor = self._new_state(update)
        for fetch in desc.fetches:
            if fetch.tensor in self._of_rows:
                fetch.tensor = self._report(fetch)

    def _mark_updates(self) -> None:
        """Let the ops of the update read marks, so that their results no longer depend on rows."""
        desc, found = self._desc, with_symbol(self._desc, self._rows)
        copies = [pb.OpDesc.FromString(op.SerializeToString()) for op in desc.ops]
        del desc.ops[:]
        for op in copies:
            if op.stage == pb.STAGE_UPDATE:
                op.inputs[:] = [self._common(name, op) if name in found else name for name in op.inputs]
            if not found.isdisjoint(op.inputs) or op_has_symbol(op, self._blocks, self._rows):
                found.update(op.outputs)
            desc.ops.append(op)
        self._of_rows = found

    def _common(self, name: str, op: pb.OpDesc) -> str:
        """Return the mark of a tensor that an op of the update reads."""
        if name in self._losses:
            return self._marked(name, weight=self._weight(self._losses[name]))
        if op.type == "add" and any(self._state_of.get(other) in self._passing for other in op.inputs):
            return self._marked(name, mean=False)
        raise self._refused(f"the update op {op.type} reads %{name}, which is no gradient that minimize took")

    def _weight(self, name: str) -> str:
        """Return the one weight of a loss or a report; "" if it has none. Raise CompileError for several."""
        found = sorted(self._weights.get(name, ()))
        if len(found) > 1:
            raise self._refused(
                f"%{name} has terms of different weights, {' and '.join(f'%{each}' for each in found)}; "
                "minimize them as one loss with minimize(weight=...)"
            )
        return found[0] if found else ""

    def _new_state(self, update: pb.UpdateDesc) -> str:
        maker = self._makers.get(update.tensor)
        if maker is not None and maker.type == "batch_norm":
            return self._marked(update.tensor)
        raise self._refused(f"the new value of the state {update.state!r} depends on all rows of the batch")

    def _report(self, fetch: pb.FetchDesc) -> str:
        type = self._block.types[fetch.tensor]
        if fetch.over == pb.OVER_SUM:
            return self._marked(fetch.tensor, mean=False)
        if fetch.over == pb.OVER_MEAN and type.dtype in FLOATS and not type.shape:
            return self._marked(fetch.tensor, weight=self._weight(fetch.tensor))
        raise self._refused(f"training reports {fetch.name!r}, {type}, of which shards have no mean")

    def _marked(self, name: str, *, mean: bool = True, weight: str = "") -> str:
        if name not in self._marks:
            block = self._block
            with block.on_behalf_of(stage=pb.STAGE_UPDATE):
                by = block.value(weight) if weight else None
                made = ops.over_shards(block.value(name), by, shards=self._shards, mean=mean)
            self._marks[name] = made.name
        return self._marks[name]

    def _forward_ops(self, loss: str) -> Iterator[pb.OpDesc]:
        """Yield the forward ops of the rows that a loss depends on, the last first."""
        needed = {loss}
        for op in reversed(self._desc.ops):
            if op.stage != pb.STAGE_FORWARD or needed.isdisjoint(op.outputs):
                continue
            needed.update(name for name in op.inputs if name in self._of_rows)
            yield op

    def _require_mean(self, loss: str) -> None:
        """Raise CompileError if a loss adds up rows: a mean over shards would not be the sum over the batch."""
        for op in self._forward_ops(loss):
            shape = self._block.types[op.inputs[0]].shape if op.type == "sum" else ()
            if self._rows in shape and shape.index(self._rows) in _summed_axes(op, len(shape)):
                raise self._refused(
                    f"the loss %{loss} adds up the rows of the batch, in %{op.outputs[0]}; "
                    "take ops.mean, or state minimize(weight=...)"
                )

    def _warn_of_pairs(self, loss: str) -> None:
        """Warn of a loss over pairs of rows, as of a contrastive one: a shard has no pairs with rows of another."""
        for op in self._forward_ops(loss):
            pairs = next((name for name in op.outputs if self._block.types[name].shape.count(self._rows) > 1), None)
            if pairs is not None:
                _log.warning(
                    "shards=%d: the loss %%%s reads %%%s: %s, pairs of rows of the batch, and each shard has those "
                    "of its own rows alone, so the loss is another than that of the whole batch",
                    *(self._shards, loss, pairs, self._block.types[pairs]),
                )
                return

    def _refused(self, why: str) -> CompileError:
        return CompileError(f"shards={self._shards}: {why}")


def _summed_axes(op: pb.OpDesc, rank: int) -> set[int]:
    axes = {
        axis % rank for attribute in op.attributes if attribute.name == "axes" for axis in attribute.ints_value.values
    }
    return axes or set(range(rank))
