"""The check of entries, data, files and the run."""

from __future__ import annotations

from prograd_proto import program_pb2 as pb
from prograd_proto.file_names import matching
from prograd_proto.limits import MAX_BINDINGS
from runtime.check.names import check_name, check_path, check_unique
from runtime.check.plateaus import check_plateaus, check_stopping
from runtime.contract import require


def check_entries(program: pb.ProgramDesc) -> None:
    """Raise ProgramError unless every entry has a name, blocks that exist and sizes."""
    check_unique((entry.name for entry in program.entries), "entry")
    order = program.bfloat16_order
    require(order in pb.Bfloat16Order.values(), f"this version has no order {order} of products of bfloat16")
    require(bool(program.entries), "the program has no entry to run")
    count = sum(len(entry.bindings) for entry in program.entries)
    require(count <= MAX_BINDINGS, f"the entries have {count} sizes in all; at most {MAX_BINDINGS} are supported")
    check_unique((each.symbol for each in program.limits), "symbol with limits")
    for each in program.limits:
        above = each.most == 0 or each.most >= each.least
        require(each.least > 0 and above, f"the symbol {each.symbol!r} is limited to {each.least} to {each.most}")
    for entry in program.entries:
        count = len(program.blocks)
        require(entry.source_block < count, f"entry {entry.name!r}: there is no block {entry.source_block}")
        require(bool(entry.bindings), f"entry {entry.name!r} has no block to run; compile the program")
        for binding in entry.bindings:
            require(binding.block < count, f"entry {entry.name!r}: there is no block {binding.block}")
            check_unique((dim.symbol for dim in binding.dims), "bound symbol")
            plan = binding.plan
            sane = all(dim.size > 0 for dim in binding.dims) and plan.arena_bytes >= 0 and plan.file_bytes >= 0
            require(sane, f"entry {entry.name!r}: a size is not positive")


def check_files(program: pb.ProgramDesc) -> None:
    """Raise ProgramError unless every file has a path inside the program's folder, a size and a hash.

    Texts of an imported model have keys that are good names and unique.
    """
    check_unique((each.key for each in program.model), "text of the model")
    check_unique((file.path for file in program.files), "file")
    for file in program.files:
        check_path(file.path)
        require(
            file.bytes >= 0 and len(file.sha256) == 32, f"the file {file.path!r} has no size or no SHA-256 of 32 bytes"
        )


def check_data(program: pb.ProgramDesc) -> None:
    """Raise ProgramError unless the data names one of the files, and columns and splits are whole."""
    if not program.HasField("data"):
        return
    data = program.data
    check_path(data.file)
    there = set(matching(data.file, paths := [file.path for file in program.files]))
    require(bool(there) and there <= set(paths), f"the data {data.file!r} is not among the program's files")
    require(data.format in pb.DataFormat.values() and data.format != 0, f"the data format {data.format} is unknown")
    require(
        data.remainder in pb.Remainder.values() and data.remainder != 0, f"the remainder {data.remainder} is unknown"
    )
    require(data.shuffle_rows >= 0, f"the data is shuffled within {data.shuffle_rows} rows")
    check_unique((column.feed for column in data.columns), "column")
    for column in data.columns:
        check_name(column.key, "column key")
    check_unique((split.name for split in data.splits), "split")
    for split in data.splits:
        rows = split.rows
        chosen = split.WhichOneof("selection")
        sane = (
            bool(split.key)
            if chosen == "key"
            else chosen == "rows" and rows.start >= 0 and rows.stop >= 0 and rows.stride > 0
        )
        require(sane, f"the split {split.name!r} selects no rows")


def check_run(program: pb.ProgramDesc) -> None:
    """Raise ProgramError unless the run names entries, splits and a metric that exist."""
    if not program.HasField("run"):
        return
    check_stopping(program)
    check_plateaus(program)
    run = program.run
    entries = {entry.name: entry for entry in program.entries}
    splits = {split.name for split in program.data.splits}
    hint = "; call minimize on the Program before you compile it" if run.entry == "train" else ""
    require(run.entry in entries, f"the run is of the entry {run.entry!r}, which does not exist{hint}")
    require(
        run.epochs >= 1 and run.stop_after >= 0, f"the run has {run.epochs} epochs and stops after {run.stop_after}"
    )
    known = not program.HasField("data") or run.split in splits or run.split == "train"
    require(known, f"the run trains on the split {run.split!r}, which does not exist")
    if not run.HasField("evaluate"):
        require(not run.HasField("keep_best") and not run.stop_after, "the run keeps the best without evaluating")
        return
    judged = not run.stop_after or run.HasField("keep_best")
    require(judged, f"the run stops after {run.stop_after} evaluations without improvement, and names no metric")
    evaluate = run.evaluate
    require(evaluate.entry in entries, f"the run evaluates the entry {evaluate.entry!r}, which does not exist")
    require(evaluate.every >= 1, f"the run evaluates every {evaluate.every} epochs")
    known = not program.HasField("data") or evaluate.split in splits
    require(known, f"the run evaluates on the split {evaluate.split!r}, which does not exist")
    fetches = {fetch.name for fetch in program.blocks[entries[evaluate.entry].source_block].fetches}
    if run.HasField("keep_best"):
        best = run.keep_best
        require(best.metric in fetches, f"the run keeps the best {best.metric!r}, which its evaluation does not fetch")
        require(
            best.direction in (pb.DIRECTION_MIN, pb.DIRECTION_MAX), f"the run's direction {best.direction} is unknown"
        )
