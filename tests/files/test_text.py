"""The text form: the same bytes after a way there and back, one line an op, errors that name the line."""

import struct
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subjects.commands import told
from subjects.random_programs import NAMES, odd_programs, programs

from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.text import block_to_text, from_text, to_text


def bytes_of(program: pb.ProgramDesc) -> bytes:
    return program.SerializeToString(deterministic=True)


@given(odd_programs())
@settings(max_examples=300)
def test_any_program_comes_back_from_its_text(program: pb.ProgramDesc):
    assert bytes_of(from_text(to_text(program))) == bytes_of(program)


@pytest.mark.thorough
@given(programs())
def test_a_compiled_program_comes_back_from_its_text(program: pb.ProgramDesc):
    assert bytes_of(from_text(to_text(program))) == bytes_of(program)


@pytest.mark.thorough
@given(programs())
def test_text_has_one_line_per_op_that_begins_with_its_outputs_and_their_types(program: pb.ProgramDesc):
    lines = block_to_text(program, 0).splitlines()
    assert len([line for line in lines if line.startswith("  %t")]) == len(program.blocks[0].ops)
    assert all(line.startswith(f"  %t{i}: ") for i, line in enumerate(lines[2:][: len(program.blocks[0].ops)], 1))


@given(NAMES)
def test_a_name_never_breaks_a_line(name: str):
    program = pb.ProgramDesc(name=name, locations=[name])
    program.blocks.add().ops.add(type=name, inputs=[name], outputs=[name], location=1)
    assert len(to_text(program).splitlines()) == 4
    assert bytes_of(from_text(to_text(program))) == bytes_of(program)


@given(st.binary(min_size=8, max_size=8))
def test_every_double_keeps_its_bits(raw: bytes):
    program = pb.ProgramDesc()
    program.blocks.add().ops.add().attributes.add(float_value=struct.unpack("<d", raw)[0])
    assert bytes_of(from_text(to_text(program))) == bytes_of(program)


@given(st.integers(1, 8), st.binary(max_size=24))
def test_every_small_tensor_keeps_its_bytes(dtype: int, data: bytes):
    item = (4, 8, 4, 8, 1, 1, 2, 2)[dtype - 1]
    for shape in ([len(data) // item], [1, 2]):
        program = pb.ProgramDesc()
        value = program.blocks.add().ops.add().attributes.add().tensor_value
        value.dtype, value.data = dtype, data
        value.shape.extend(shape)
        assert bytes_of(from_text(to_text(program))) == bytes_of(program)


@pytest.mark.parametrize(
    ("dtype", "usual", "unusual"),
    [
        (pb.D_TYPE_FLOAT32, "7fc00000", ("ffc00000", "7fc00001", "7f800001")),
        (pb.D_TYPE_FLOAT64, "7ff8000000000000", ("fff8000000000000", "7ff8000000000001", "7ff0000000000001")),
        (pb.D_TYPE_FLOAT16, "7e00", ("fe00", "7e01", "7c01")),
        (pb.D_TYPE_BFLOAT16, "7fc0", ("ffc0", "7fc1", "7f81")),
    ],
)
def test_a_nan_is_written_as_one_only_if_it_comes_back_with_its_bits(dtype: int, usual: str, unusual: tuple[str, ...]):
    for bits in (usual, *unusual):
        program = pb.ProgramDesc()
        value = program.blocks.add().ops.add(type="constant").attributes.add(name="value").tensor_value
        value.dtype, value.data = dtype, bytes.fromhex(bits)[::-1]
        value.shape.append(1)
        text = block_to_text(program, 0)
        assert ("[1] {nan}" in text) == (bits == usual)
        assert (f"[1] 0x{value.data.hex()}" in text) == (bits != usual)
        assert bytes_of(from_text(to_text(program))) == bytes_of(program)


def test_small_tensors_are_written_with_the_digits_a_person_would_write():
    program = pb.ProgramDesc()
    value = program.blocks.add().ops.add(type="constant").attributes.add(name="value").tensor_value
    value.dtype, value.data = pb.D_TYPE_FLOAT32, struct.pack("<3f", 0.1, 16777217.0, 3.4028234663852886e38)
    value.shape.append(3)
    assert block_to_text(program, 0) == (
        "block 0\n  () = constant() {value=float32[3] {0.1, 16777216, 3.4028235e+38}}\n"
    )


@pytest.mark.parametrize(
    ("dtype", "data", "written"),
    [
        (
            pb.D_TYPE_FLOAT16,
            struct.pack("<5e", 0.1, -0.0, 65504.0, 2.0**-24, 1 / 3),
            "{0.1, -0, 6.55e+04, 5.96e-08, 0.3333}",
        ),
        (
            pb.D_TYPE_BFLOAT16,
            struct.pack("<5H", 0x3DCD, 0x8000, 0x7F7F, 1, 0x3EAB),
            "{0.1, -0, 3.39e+38, 9.2e-41, 0.334}",
        ),
    ],
)
def test_small_tensors_of_16_bits_have_as_few_digits(dtype: int, data: bytes, written: str):
    program = pb.ProgramDesc()
    value = program.blocks.add().ops.add(type="constant").attributes.add(name="value").tensor_value
    value.dtype, value.data = dtype, data
    value.shape.append(5)
    text = block_to_text(program, 0)
    assert written in text
    assert bytes_of(from_text(to_text(program))) == bytes_of(program)


def test_a_parameter_an_absent_input_and_every_remark_are_on_the_ops_own_lines():
    text = """\
program small, format 1

# train as built
block 0
  parameter %x: float32[batch, 2] <- feed x
  %y: float32[batch, 2] = dropout(%x, _) {rate=0.5}  # forward, op 1, random 3, train.py:3
  %dx: float32[batch, 2] gradient of %x = f(%y)  # derivative, op 2, of op 1, again op 1, block 2, train.py:4
  result %dx
"""
    program = from_text(text)
    first, second = program.blocks[0].ops
    assert to_text(program) == text.replace("# train as built\n", "")
    assert list(first.inputs) == ["x", ""]
    assert (first.id, first.random_stream, first.stage) == (1, 3, pb.STAGE_FORWARD)
    assert (second.gradient_of, second.recompute_of, list(second.blocks)) == (1, 1, [2])
    assert [op.location for op in (first, second)] == [1, 2]
    assert list(program.locations) == ["train.py:3", "train.py:4"]
    assert [desc.name for desc in program.blocks[0].tensors] == ["x", "y", "dx"]
    assert program.blocks[0].tensors[2].gradient_of == "x"


def test_tensors_in_another_order_than_their_definitions_are_put_in_order():
    program = from_text("program p\nblock 0\n  parameter %a: bool[]\n  %b: bool[] = f()\n  order %b\n  order %a\n")
    assert [desc.name for desc in program.blocks[0].tensors] == ["b", "a"]
    assert to_text(program).endswith("  order %b, %a\n")


def test_tensors_that_share_a_name_have_lines_of_their_own():
    program = pb.ProgramDesc(name="p")
    program.blocks.add(tensors=[pb.TensorDesc(name="a", dtype=1), pb.TensorDesc(name="a", dtype=2)]).ops.add(
        type="f", outputs=["a"]
    )
    assert block_to_text(program, 0) == "block 0\n  %a = f()\n  tensor %a: float32\n  tensor %a: float64\n"


def test_the_example_in_the_documentation_is_in_the_grammar():
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
    indented = page.split("abridged):\n\n")[1].split("\n\nThe grammar")[0] + "\n"
    example = textwrap.dedent(indented)
    assert to_text(from_text(example)) == example


ERRORS = {
    "": "line 1: there is no program here",
    "block 0": "line 1: 'block' stands where the line that begins a program, 'program' and its name, belongs",
    "program p\nprogram p": "line 2: a second program begins",
    "program p, version 1": "line 1: 'version' says nothing here",
    "program p,": "line 1: a clause is missing after the comma",
    "program p format 1": "line 1: 'format' stands where the end of the line belongs",
    "program p, format 99999999999": "line 1: a number does not fit its field",
    "program 3": "line 1: '3' stands where a name belongs",
    'program "p': "line 1: a string does not end on its line",
    'program "\\x"': 'line 1: "\\x" is not a string',
    'program "\\ud800"': 'line 1: "\\ud800" is not a string',
    "program p\nblocks 0": "line 2: no line begins with 'blocks'",
    "program p\n\n# remark\nblock 1": "line 4: block 1 stands where block 0 belongs",
    "program p\n%y = f(%x)": "line 2: an op belongs to a block or a state, and none stands before it",
    "program p\nblock 0\n%y = f(%x": "line 3: the end of the line stands where ')' belongs",
    "program p\nblock 0\n%y f(%x)": "line 3: 'f' stands where '=' belongs",
    "program p\nblock 0\n%y = f(x)": "line 3: 'x' stands where a tensor belongs",
    "program p\nblock 0\n%y: float8[2] = f(%x)": "line 3: 'float8' stands where a dtype belongs",
    "program p\nblock 0\n%y = f() {a=maybe}": "line 3: 'maybe' stands where a number belongs",
    "program p\nblock 0\n%y = f() {a=1.5.2}": "line 3: '.2' stands where '}' belongs",
    "program p\nblock 0\n%y = f() {a=float32[1] 0x123}": (
        "line 3: '0x123' stands where a whole number of bytes, such as 0x01ff, belongs"
    ),
    "program p\nblock 0\n%y = f() {a=#9[1] {1}}": (
        "line 3: elements are written for a known dtype only; write the bytes, beginning with 0x"
    ),
    "program p\nblock 0\n%y = f() {a=float32[1] {1e39}}": "line 3: a number does not fit its field",
    "program p\nblock 0\n%y = f()  # sideways": "line 3: 'sideways' says nothing here",
    "program p\nblock 0\n%y = f()  # op x": "line 3: 'x' stands where a whole number belongs",
    "program p\nblock 0\nparameter %x <- file x": "line 3: 'file' says nothing here",
    "program p\nblock 0\ntensor %x: bool[]\ntensor %y: bool[]\norder %x\nblock 1": (
        "line 6: the order before this line ends after 1 tensors of the block"
    ),
    "program p\nblock 0\ntensor %x: bool[]\norder %y": (
        "line 4: the order lists each tensor of the block once; these are others"
    ),
    "program p\ncolumn x <- y": "line 2: no 'data' line stands before this one, which belongs to it",
    "program p\nrun a\nrun b": "line 3: a second 'run', where there can be one",
    "program p\nstate w: bool[]\n%w: bool[] = f()": "line 3: the type of a state stands in its own line, not at the op",
    "program p\nstate w: bool[]\n%w = f()\nexternal a, key b": (
        "line 4: a second 'first value', where there can be one"
    ),
    "program p\nupdate w <- %w": "line 2: this line belongs to a block, and none stands before it",
    "program p\nentry e = block 0\nplan 3 bytes": (
        "line 3: no 'binding' line stands before this one, which belongs to it"
    ),
}


@pytest.mark.parametrize(("text", "sentence"), ERRORS.items(), ids=[s.partition(": ")[2] for s in ERRORS.values()])
def test_text_that_is_not_in_the_grammar_is_refused_with_its_line(text: str, sentence: str):
    assert told(ProgramError, lambda: from_text(text)) == sentence


@given(st.text(st.sampled_from(' ,:=#%_"\\(){}[]<-0x1nan.eblockprgm?\n')))
def test_any_text_is_a_program_or_a_program_error(text: str):
    for start in ("", "program p\nblock 0\n", "program p\nblock 0\n%y = f() {a="):
        program = program_or_refusal(start + text)
        if isinstance(program, str):
            assert program.startswith("line ")
        else:
            assert bytes_of(from_text(to_text(program))) == bytes_of(program)


def program_or_refusal(text: str) -> pb.ProgramDesc | str:
    try:
        return from_text(text)
    except ProgramError as error:
        return str(error)
