"""The check of untrusted programs: for each refusal a smallest program, and the sentence; then programs at random."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mutations import good_programs, mutated, outcome
from subjects.commands import told

from compiler import Program, momentum, ops, uniform
from prograd_proto import ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.tensor_types import tensor_desc
from runtime.check import check_program
from runtime.engines.reference.target import REFERENCE
from runtime.runs.run import Run

Change = Callable[[pb.ProgramDesc, pb.BlockDesc], object]


def good() -> pb.ProgramDesc:
    """w and v are trained on the mean of sigmoid(x * w) and its data lies in a file."""
    program = Program()
    x = program.input("x", "float32", ("n", 3))
    w = program.parameter("w", (3,), uniform())
    y = ops.sigmoid(x * w)
    program.minimize(ops.mean(ops.softmax(y)), momentum(0.1))
    program.fetch("turned", ops.reshape(y, shape=(3, "n")))
    program.outputs(y=y)
    program.data(
        "rows.safetensors", splits={"train": slice(0, 4), "test": "test rows"}, shuffle=False, remainder="drop"
    )
    program.training(3, evaluate="test", keep_best="loss", best="min")
    desc = program.compile(n=2).desc
    desc.files.add(path="rows.safetensors", bytes=100, sha256=bytes(32))
    return desc


def train(program: pb.ProgramDesc) -> pb.BlockDesc:
    return program.blocks[program.entries[0].bindings[0].block]


def op_of(block: pb.BlockDesc, type: str) -> pb.OpDesc:
    return next(op for op in block.ops if op.type == type)


def tensor_of(block: pb.BlockDesc, name: str) -> pb.TensorDesc:
    return next(tensor for tensor in block.tensors if tensor.name == name)


def renamed_shape(desc: pb.TensorDesc, *extents: int) -> None:
    desc.CopyFrom(tensor_desc(desc.name, TensorType("float32", extents)))


def set_all(message: object, **values: object) -> None:
    for name, value in values.items():
        setattr(message, name, value)


SIGMOID, MUL, UPDATE = "op 2 (sigmoid from {y})", "op 1 (mul from {y})", "op {update} (momentum from {m})"
W = 3  # the state after the counters

REFUSALS: list[tuple[str, Change, str]] = [
    # names
    ("a tensor without a name", lambda p, b: b.tensors.add(dtype=1), "block {n}: one tensor has no name"),
    (
        "a name that is not printable",
        lambda p, b: setattr(b.tensors[0], "name", "x\n"),
        "block {n}: the tensor name 'x\\n' is too long or not printable",
    ),
    (
        "a name that is too long",
        lambda p, b: setattr(b.tensors[0], "name", "x" * 1001),
        "block {n}: the tensor name '" + "x" * 40 + "' is too long or not printable",
    ),
    ("two tensors of one name", lambda p, b: b.tensors.add(name="x"), "block {n}: the tensor 'x' is there twice"),
    # types and sizes
    (
        "an unknown dtype",
        lambda p, b: setattr(b.tensors[0], "dtype", 99),
        "block {n}: 'x' has no known dtype (number 99)",
    ),
    (
        "an unbound symbol",
        lambda p, b: b.tensors[0].shape.dims[0].CopyFrom(pb.Dim(symbol="n")),
        "block {n}: 'x': float32[n, 3] has the unbound symbol 'n'; compile with a size",
    ),
    (
        "a negative extent",
        lambda p, b: renamed_shape(b.tensors[0], -1, 3),
        "block {n}: 'x': float32[-1, 3] has a negative extent",
    ),
    (
        "a tensor that is too large",
        lambda p, b: renamed_shape(b.tensors[0], 1 << 40, 3),
        "block {n}: 'x': float32[1099511627776, 3] is larger than a tebibyte",
    ),
    (
        "a tensor whose size overflows",
        lambda p, b: renamed_shape(b.tensors[0], 1 << 62, 1 << 62),
        "block {n}: 'x': float32[4611686018427387904, 4611686018427387904] is larger than a tebibyte",
    ),
    (
        "an empty tensor with endless axes",
        lambda p, b: renamed_shape(b.tensors[0], 0, 1 << 40),
        "block {n}: 'x': float32[0, 1099511627776] has no elements and too many places for them",
    ),
    (
        "too many axes",
        lambda p, b: b.tensors[0].shape.dims.extend([pb.Dim(size=1)] * (33 - len(b.tensors[0].shape.dims))),
        "block {n}: 'x': there are 33 axes; at most 32 are supported",
    ),
    # states
    ("no step counter", lambda p, b: p.states.remove(p.states[1]), "there is no state 'step' of type int64[]"),
    (
        "a step counter of another type",
        lambda p, b: setattr(p.states[1], "dtype", pb.D_TYPE_INT32),
        "there is no state 'step' of type int64[]",
    ),
    ("two states of one name", lambda p, b: p.states.add().CopyFrom(p.states[W]), "the state 'w' is there twice"),
    (
        "a state with a colon",
        lambda p, b: p.states.add(name="a:b", dtype=1, shape=pb.Shape(), kind=1, lifespan=1),
        "state 'a:b': its name has a colon, which marks the runtime's own tensors",
    ),
    ("a state of no kind", lambda p, b: setattr(p.states[W], "kind", 0), "state 'w': its kind 0 is unknown"),
    (
        "a state of an unknown lifespan",
        lambda p, b: setattr(p.states[W], "lifespan", 9),
        "state 'w': its lifespan 9 is neither always nor epoch",
    ),
    (
        "a state of a tensor's lifespan",
        lambda p, b: setattr(p.states[W], "lifespan", pb.LIFESPAN_FORWARD),
        "state 'w': its lifespan 3 is neither always nor epoch",
    ),
    (
        "a slot of nothing",
        lambda p, b: setattr(p.states[W], "slot_of", "gone"),
        "state 'w': it is a slot of 'gone', which is no state",
    ),
    (
        "a state of another type than its initial value",
        lambda p, b: p.states[W].shape.dims.add(size=2),
        "state 'w': its initial op gives float32[3], not float32[3, 2]",
    ),
    (
        "an initial value for another state",
        lambda p, b: p.states[W].op.outputs.__setitem__(0, "v"),
        "state 'w': its initial op does not define it",
    ),
    (
        "an initial value that reads a parameter",
        lambda p, b: p.states[W].op.inputs.__setitem__(0, "w.velocity"),
        "state 'w': op 1 (uniform from {w}): it reads %w.velocity, which nothing defines before it",
    ),
    (
        "an initial value from a file that is not listed",
        lambda p, b: p.states[W].external.CopyFrom(pb.ExternalTensor(path="../w.npz", key="w")),
        "state 'w': its file '../w.npz' is not among the program's files",
    ),
    (
        "an initial value without a key",
        lambda p, b: p.states[W].external.CopyFrom(pb.ExternalTensor(path="rows.safetensors")),
        "state 'w': its initial value has no key",
    ),
    # files
    *(
        (
            f"the path {path!r}",
            lambda p, b, path=path: p.files.add(path=path, sha256=bytes(32)),
            f"the path {path!r} leaves the program's folder",
        )
        for path in ("../secret", "/etc/passwd", "a/../../b", "..", "C:\\x", "a\\b", "D:x", "\\\\host\\x")
    ),
    (
        "a file without a hash",
        lambda p, b: p.files[0].ClearField("sha256"),
        "the file 'rows.safetensors' has no size or no SHA-256 of 32 bytes",
    ),
    (
        "a file of negative size",
        lambda p, b: setattr(p.files[0], "bytes", -1),
        "the file 'rows.safetensors' has no size or no SHA-256 of 32 bytes",
    ),
    (
        "two files of one path",
        lambda p, b: p.files.add(path="rows.safetensors"),
        "the file 'rows.safetensors' is there twice",
    ),
    # entries
    ("no entries", lambda p, b: p.ClearField("entries"), "the program has no entry to run"),
    (
        "two entries of one name",
        lambda p, b: setattr(p.entries[1], "name", "train"),
        "the entry 'train' is there twice",
    ),
    (
        "an entry without a source",
        lambda p, b: setattr(p.entries[0], "source_block", 99),
        "entry 'train': there is no block 99",
    ),
    (
        "an entry that is not compiled",
        lambda p, b: p.entries[0].ClearField("bindings"),
        "entry 'train' has no block to run; compile the program",
    ),
    (
        "a binding without its block",
        lambda p, b: setattr(p.entries[0].bindings[0], "block", 99),
        "entry 'train': there is no block 99",
    ),
    (
        "a size of nothing",
        lambda p, b: setattr(p.entries[0].bindings[0].dims[0], "size", 0),
        "entry 'train': a size is not positive",
    ),
    (
        "a binding of two sizes",
        lambda p, b: p.entries[0].bindings[0].dims.add(symbol="n", size=2),
        "the bound symbol 'n' is there twice",
    ),
    (
        "a binding to the source",
        lambda p, b: setattr(p.entries[0].bindings[0], "block", p.entries[0].source_block),
        "block 0: 'x': float32[n, 3] has the unbound symbol 'n'; compile with a size",
    ),
    # what is bound
    (
        "a size that is not the block's",
        lambda p, b: setattr(p.entries[0].bindings[0].dims[0], "size", 5),
        "entry 'train': the feed 'x' of block {n} is not as in the source, with its sizes",
    ),
    (
        "a feed that the source does not have",
        lambda p, b: setattr(b.parameters[0], "feed", "other"),
        "entry 'train': the feed 'x' of block {n} is not as in the source, with its sizes",
    ),
    (
        "a fetch that the source does not have",
        lambda p, b: b.fetches.add(name="more", tensor="x", over=1),
        "entry 'train': the fetch 'more' of block {n} is not as in the source, with its sizes",
    ),
    (
        "a source that describes nothing",
        lambda p, b: p.blocks[0].ClearField("tensors"),
        "entry 'train': the feed 'x' of the source is %x, which is not described",
    ),
    # parameters
    (
        "a parameter that is not described",
        lambda p, b: setattr(b.parameters[0], "tensor", "gone"),
        "block {n}: the parameter %gone is not described, or defined twice",
    ),
    (
        "a parameter twice",
        lambda p, b: b.parameters.add(tensor="x", feed="again"),
        "block {n}: the parameter %x is not described, or defined twice",
    ),
    (
        "a parameter from an argument",
        lambda p, b: setattr(b.parameters[0], "argument", 0),
        "block {n}: the parameter %x comes from neither a feed nor a state",
    ),
    (
        "a parameter from nowhere",
        lambda p, b: b.parameters[0].ClearField("feed"),
        "block {n}: the parameter %x comes from neither a feed nor a state",
    ),
    (
        "a parameter from no state",
        lambda p, b: setattr(b.parameters[1], "state", "gone"),
        "block {n}: %w stands for the state 'gone', which does not exist",
    ),
    (
        "a parameter of another type than its state",
        lambda p, b: setattr(tensor_of(b, "w"), "dtype", pb.D_TYPE_INT32),
        "block {n}: %w is int32[3], its state 'w' is float32[3]",
    ),
    (
        "two parameters for a state",
        lambda p, b: b.parameters.add(tensor="w", state="w"),
        "block {n}: the state parameter 'w' is there twice",
    ),
    ("results", lambda p, b: b.results.append("x"), "block {n}: it has results, which only a sub-block has"),
    (
        "a tensor without a shape",
        lambda p, b: tensor_of(b, "x").ClearField("shape"),
        "block {n}: 'x' has no shape; that of a scalar is there, and empty",
    ),
    (
        "an extent that is nothing",
        lambda p, b: tensor_of(b, "x").shape.dims[0].ClearField("extent"),
        "block {n}: 'x': an extent is neither a size nor a symbol",
    ),
    (
        "an extent that is a symbol without a name",
        lambda p, b: setattr(tensor_of(b, "x").shape.dims[0], "symbol", ""),
        "block {n}: 'x': an extent is neither a size nor a symbol",
    ),
    (
        "a tensor without a shape in a block that does not run",
        lambda p, b: tensor_of(p.blocks[p.entries[0].source_block], "x").ClearField("shape"),
        "block 0: 'x' has no shape; that of a scalar is there, and empty",
    ),
    (
        "a state without a shape",
        lambda p, b: p.states[W].ClearField("shape"),
        "'w' has no shape; that of a scalar is there, and empty",
    ),
    (
        "an attribute with an extent that is nothing",
        lambda p, b: op_of(b, "reshape").attributes[0].shape_value.dims[0].ClearField("extent"),
        "block {n}: op {reshape} (reshape from {r}): an extent is neither a size nor a symbol",
    ),
    # ops
    (
        "an unknown operator",
        lambda p, b: setattr(op_of(b, "sigmoid"), "type", "sigmoyd"),
        "block {n}: op 2 (sigmoyd from {y}): this runtime has no kernel 'sigmoyd'; the closest is 'sigmoid'",
    ),
    (
        "an operator of a newer version",
        lambda p, b: [setattr(o, "version", 2) for o in p.operators if o.type == "sigmoid"],
        f"block {{n}}: {SIGMOID}: the program lists versions [2] of 'sigmoid', this runtime has 1",
    ),
    (
        "an operator that is not listed",
        lambda p, b: p.operators.remove(next(o for o in p.operators if o.type == "sigmoid")),
        f"block {{n}}: {SIGMOID}: the program lists versions [] of 'sigmoid', this runtime has 1",
    ),
    (
        "two ops of one id",
        lambda p, b: setattr(op_of(b, "sigmoid"), "id", 1),
        "block {n}: two ops have the id 1, or it is 0",
    ),
    (
        "a location that is not in the table",
        lambda p, b: setattr(op_of(b, "sigmoid"), "location", 999),
        "block {n}: op 2 (sigmoid): its location is not in the table",
    ),
    (
        "no stage",
        lambda p, b: setattr(op_of(b, "sigmoid"), "stage", 0),
        f"block {{n}}: {SIGMOID}: its stage 0 is unknown",
    ),
    (
        "sub-blocks",
        lambda p, b: op_of(b, "sigmoid").blocks.append(0),
        f"block {{n}}: {SIGMOID}: it has sub-blocks, which its kernel does not run",
    ),
    (
        "a random stream for nothing",
        lambda p, b: setattr(op_of(b, "sigmoid"), "random_stream", 5),
        f"block {{n}}: {SIGMOID}: a random stream and a random kernel go together",
    ),
    (
        "a missing operand",
        lambda p, b: op_of(b, "mul").inputs.pop(),
        f"block {{n}}: {MUL}: its kernel takes the operands (a, b), it has 1",
    ),
    (
        "an absent operand",
        lambda p, b: op_of(b, "mul").inputs.__setitem__(1, ""),
        f"block {{n}}: {MUL}: its operand 'b' is absent",
    ),
    (
        "an operand that comes later",
        lambda p, b: op_of(b, "mul").inputs.__setitem__(0, "sigmoid_2"),
        f"block {{n}}: {MUL}: it reads %sigmoid_2, which nothing defines before it",
    ),
    (
        "an operand that is its own result",
        lambda p, b: op_of(b, "mul").inputs.__setitem__(0, "mul_1"),
        f"block {{n}}: {MUL}: it reads %mul_1, which nothing defines before it",
    ),
    (
        "an attribute of another name",
        lambda p, b: setattr(op_of(b, "softmax").attributes[0], "name", "axes"),
        "block {n}: op 3 (softmax from {m}): it has the attributes (axes: int), its kernel takes (axis: int); "
        "did you mean 'axis'?",
    ),
    (
        "an attribute of another kind",
        lambda p, b: op_of(b, "softmax").attributes[0].CopyFrom(attribute_message("axis", "ints", (1,))),
        "block {n}: op 3 (softmax from {m}): it has the attributes (axis: ints), its kernel takes (axis: int)",
    ),
    (
        "an attribute twice",
        lambda p, b: op_of(b, "softmax").attributes.add(name="axis", int_value=1),
        "block {n}: op 3 (softmax from {m}): it has the attributes (axis: int), its kernel takes (axis: int)",
    ),
    (
        "an attribute without a value",
        lambda p, b: op_of(b, "softmax").attributes[0].ClearField("int_value"),
        "block {n}: op 3 (softmax from {m}): the attribute 'axis' has no value",
    ),
    (
        "an attribute that the kernel refuses",
        lambda p, b: set_all(op_of(b, "softmax").attributes[0], int_value=7),
        "block {n}: op 3 (softmax from {m}): axis 7 is out of range for rank 2",
    ),
    (
        "a shape that is not static",
        lambda p, b: op_of(b, "reshape").attributes[0].shape_value.dims.add(symbol="n"),
        "block {n}: op {reshape} (reshape from {r}): its attribute 'shape' is no static shape",
    ),
    (
        "a missing output",
        lambda p, b: op_of(b, "sigmoid").outputs.pop(),
        f"block {{n}}: {SIGMOID}: its outputs are 0, those of its kernel 1",
    ),
    (
        "an output that lies about its type",
        lambda p, b: renamed_shape(tensor_of(b, "sigmoid_2"), 2, 4),
        f"block {{n}}: {SIGMOID}: its output %sigmoid_2 is float32[2, 4], the kernel gives float32[2, 3]",
    ),
    (
        "an output that lies about its dtype",
        lambda p, b: setattr(tensor_of(b, "sigmoid_2"), "dtype", pb.D_TYPE_UINT8),
        f"block {{n}}: {SIGMOID}: its output %sigmoid_2 is uint8[2, 3], the kernel gives float32[2, 3]",
    ),
    (
        "an output that is a feed",
        lambda p, b: op_of(b, "sigmoid").outputs.__setitem__(0, "x"),
        f"block {{n}}: {SIGMOID}: its output %x is not described, or defined twice",
    ),
    (
        "a tensor that nothing defines",
        lambda p, b: b.tensors.add(name="more", dtype=1, shape=pb.Shape()),
        "block {n}: %more is described, and nothing defines it",
    ),
    # the end of a step
    (
        "a fetch of nothing",
        lambda p, b: b.fetches.add(name="more", tensor="gone", over=1),
        "block {n}: the fetch 'more' reads %gone, which nothing defines",
    ),
    (
        "a fetch that combines in no way",
        lambda p, b: b.fetches.add(name="more", tensor="x"),
        "block {n}: the fetch 'more' has the unknown over 0",
    ),
    (
        "two fetches of one name",
        lambda p, b: b.fetches.add(name="loss", tensor="x", over=1),
        "block {n}: the fetch 'loss' is there twice",
    ),
    (
        "an update of no state",
        lambda p, b: b.updates.add(state="gone", tensor="x"),
        "block {n}: an update is of the state 'gone', which does not exist",
    ),
    (
        "an update from nothing",
        lambda p, b: b.updates.add(state="seed", tensor="gone"),
        "block {n}: the update of 'seed' reads %gone, which nothing defines",
    ),
    (
        "an update of another type",
        lambda p, b: b.updates.add(state="seed", tensor="x"),
        "block {n}: the update of 'seed' is float32[2, 3], the state is int64[]",
    ),
    (
        "two updates of a state",
        lambda p, b: b.updates.add().CopyFrom(b.updates[0]),
        "block {n}: the update 'w' is there twice",
    ),
    # data and run
    (
        "data that leaves the folder",
        lambda p, b: setattr(p.data, "file", "../rows.safetensors"),
        "the path '../rows.safetensors' leaves the program's folder",
    ),
    (
        "data that is not among the files",
        lambda p, b: setattr(p.data, "file", "other.safetensors"),
        "the data 'other.safetensors' is not among the program's files",
    ),
    ("data of no format", lambda p, b: setattr(p.data, "format", 0), "the data format 0 is unknown"),
    ("no word on the remainder", lambda p, b: setattr(p.data, "remainder", 0), "the remainder 0 is unknown"),
    ("a column without a key", lambda p, b: setattr(p.data.columns[0], "key", ""), "one column key has no name"),
    ("two columns for a feed", lambda p, b: p.data.columns.add(feed="x", key="y"), "the column 'x' is there twice"),
    ("a split of nothing", lambda p, b: p.data.splits.add(name="none"), "the split 'none' selects no rows"),
    (
        "a split that steps back",
        lambda p, b: setattr(p.data.splits[0].rows, "stride", 0),
        "the split 'train' selects no rows",
    ),
    (
        "a run of no entry",
        lambda p, b: setattr(p.run, "entry", "gone"),
        "the run is of the entry 'gone', which does not exist",
    ),
    ("a run of no epochs", lambda p, b: setattr(p.run, "epochs", 0), "the run has 0 epochs and stops after 0"),
    (
        "a run on no split",
        lambda p, b: setattr(p.run, "split", "gone"),
        "the run trains on the split 'gone', which does not exist",
    ),
    (
        "the best without an evaluation",
        lambda p, b: p.run.ClearField("evaluate"),
        "the run keeps the best without evaluating",
    ),
    (
        "an evaluation of no entry",
        lambda p, b: setattr(p.run.evaluate, "entry", "gone"),
        "the run evaluates the entry 'gone', which does not exist",
    ),
    (
        "an evaluation every 0 epochs",
        lambda p, b: setattr(p.run.evaluate, "every", 0),
        "the run evaluates every 0 epochs",
    ),
    (
        "an evaluation on no split",
        lambda p, b: setattr(p.run.evaluate, "split", "gone"),
        "the run evaluates on the split 'gone', which does not exist",
    ),
    (
        "the best of no metric",
        lambda p, b: setattr(p.run.keep_best, "metric", "gone"),
        "the run keeps the best 'gone', which its evaluation does not fetch",
    ),
    (
        "the best in no direction",
        lambda p, b: setattr(p.run.keep_best, "direction", 0),
        "the run's direction 0 is unknown",
    ),
]


def test_a_good_program_passes_and_is_not_changed():
    program = good()
    before = program.SerializeToString(deterministic=True)
    check_program(program, REFERENCE)
    assert program.SerializeToString(deterministic=True) == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("change", "sentence"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_a_program_that_lies_is_refused_in_a_sentence(change: Change, sentence: str):
    program = good()
    block = train(program)
    adds = op_of(block, "add")
    lines = {
        "w": program.states[W].op.location,
        "y": op_of(block, "sigmoid").location,
        "m": op_of(block, "mean").location,
    }
    lines["r"] = op_of(block, "reshape").location
    words = {name: program.locations[number - 1] for name, number in lines.items()}
    words |= {"n": program.entries[0].bindings[0].block, "reshape": op_of(block, "reshape").id}
    words |= {"update": op_of(block, "momentum").id, "add": adds.id, "one": adds.inputs[1]}
    change(program, block)
    assert told(ProgramError, lambda: check_program(program, REFERENCE)) == sentence.format(**words)


def test_a_refused_program_is_refused_before_anything_is_allocated(tmp_path: Path):
    program = good()
    program.states[W].shape.dims[0].size = 1 << 36  # a quarter of a tebibyte that its initial value does not have
    with pytest.raises(ProgramError, match="its initial op gives"):
        Run(program, tmp_path)


def test_every_sentence_of_the_check_that_speaks_of_a_block_names_its_number():
    sentences = [sentence for _, _, sentence in REFUSALS]
    assert sum(sentence.startswith("block {n}: ") for sentence in sentences) > 40
    assert len({row[0] for row in REFUSALS}) == len(REFUSALS)


# At random


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 600, 100))
def test_a_program_changed_at_random_runs_or_is_refused_and_nothing_else(first: int, tmp_path: Path):
    """`python tests/mutations.py SECONDS` tries more of them."""
    words = [outcome(mutated(seed), tmp_path) for seed in range(first, first + 100)]
    assert words.count("ran") >= 10, "enough changes pass the check to try what is behind it"
    assert words.count("ProgramError") >= 30


def test_good_programs_run(tmp_path: Path):
    words = [outcome(raw, tmp_path) for raw in good_programs()]
    assert set(words) <= {"ran", "ExecutionError", "OutOfRange"}
    assert words.count("ran") > 0.95 * len(words), "some operators refuse indices that are fed at random"


def test_equal_seeds_make_equal_mutations():
    assert [mutated(seed) for seed in range(20)] == [mutated(seed) for seed in range(20)]
    assert len({mutated(seed) for seed in range(50)}) > 45


def test_cut_short_files_are_refused_wherever_they_are_cut(tmp_path: Path):
    raw = good_programs()[1]
    for size in np.linspace(0, len(raw) - 1, 60).astype(int):
        assert outcome(raw[:size], tmp_path) == "ProgramError"


def test_an_op_like_others_is_checked_where_it_differs() -> None:
    """Checks of one op are not reused for another one with other attributes or operands."""
    program = Program()
    y = program.input("x", "float32", ("n", 3))
    for i in range(4):
        y = ops.sigmoid(ops.cumsum(y, axis=1))
        program.outputs(**{f"y{i}": y})
    desc = program.compile(n=2).desc
    check_program(desc, REFERENCE)
    number = desc.entries[0].bindings[0].block
    last = [op for op in desc.blocks[number].ops if op.type == "cumsum"][-1]
    before = pb.ProgramDesc.FromString(desc.SerializeToString())
    next(a for a in last.attributes if a.name == "axis").int_value = 7
    with pytest.raises(ProgramError, match=f"op {last.id} "):
        check_program(desc, REFERENCE)
    renamed_shape(tensor_of(before.blocks[number], last.inputs[0]), 2, 4)
    with pytest.raises(ProgramError, match="its output"):
        check_program(before, REFERENCE)
