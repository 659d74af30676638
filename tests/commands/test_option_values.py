"""Values on the command line: one way to write them, in both commands, and to pass them on."""

from argparse import ArgumentTypeError

import pytest
from subjects.commands import told

from compiler.commands.verbs.command import COMMAND as COMPILER
from prograd_proto.byte_sizes import byte_size
from runtime.command_line.parsing import parsed
from runtime.command_line.values import duration, natural, positive, size, threads
from runtime.commands.verbs.command import COMMAND as RUNTIME
from runtime.commands.verbs.running import EXECUTE

SIZES = {
    "0": 0,
    "1000000": 1_000_000,
    "512B": 512,
    "1.5MiB": 3 << 19,
    "64mib": 64 << 20,
    "1GB": 10**9,
    "0.75KB": 750,
    "2TiB": 2 << 40,
    "0.0007MiB": 734,
}
TIMES = {"0": 0, "90": 90, "1.5": 1.5, ".5": 0.5, "1e-9": 1e-9, "1e9": 1e9, "90s": 90, "1.5min": 90, "2H": 7200}
TIMES |= {"500ms": 0.5, "9" * 24: 3e9, "1e400": 3e9}


@pytest.mark.parametrize("parse", [byte_size, size])
@pytest.mark.parametrize("text", SIZES)
def test_a_size_is_so_many_bytes(parse, text: str):
    assert parse(text) == SIZES[text]


@pytest.mark.parametrize("text", ["", "-1", "1e3", "MiB", "1 MiB", "1XB", "1.MiB", ".5MiB", "१", "1" * 19, "nan"])
def test_what_is_no_size_is_refused(text: str):
    assert told(ArgumentTypeError, lambda: size(text)) == f"{text!r} is not a size as 1.5MiB, 1GB or 1000000"


@pytest.mark.parametrize(
    ("parse", "text", "sentence"),
    [
        (size, "9999999TiB", "'9999999TiB' is a size of 2^63 bytes or more"),
        (positive, "0", "'0' is not a whole number from 1 on, of at most 18 digits"),
        (natural, "-1", "'-1' is not a whole number from 0 on, of at most 18 digits"),
        (positive, "1" * 19, f"'{'1' * 19}' is not a whole number from 1 on, of at most 18 digits"),
    ],
)
def test_what_is_beyond_an_end_is_refused(parse, text: str, sentence: str):
    assert told(ArgumentTypeError, lambda: parse(text)) == sentence


@pytest.mark.parametrize("text", TIMES)
def test_a_time_is_so_many_seconds(text: str):
    assert duration(text) == TIMES[text]


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "1d", "1 h", "min", "1m", "१", "1e4000", "1_0"])
def test_what_is_no_time_is_refused(text: str):
    assert told(ArgumentTypeError, lambda: duration(text)) == f"{text!r} is not a time as 90, 1.5min, 2h or 500ms"


MEANINGS = {"SIZE": {size}, "TIME": {duration}, "N": {positive, threads}}
VERBS = [*COMPILER.verbs.values(), *RUNTIME.verbs.values()]


def test_processes_of_a_verb_get_its_options_as_they_were_given():
    words = [
        "--steps",
        "3",
        "--set",
        "rate=0.5",
        "--set",
        "drop=1e-07",
        "--rename",
        "a.=b.",
        "--spill-dir",
        "/tmp/s",
        "--layout",
        "torch",
    ]
    words += ["--max-memory", "4096", "--plugin", "more", "--threads", "2"]
    options = parsed(RUNTIME, ["execute", "net.pb", "--load", "w.npz", *words, "--check-nan", "--quiet"])
    passed = EXECUTE.passed(options, entry="predict", threads="1")
    assert passed[:2] == ["--entry", "predict"]
    again = parsed(RUNTIME, ["execute", "net.pb", *passed])
    assert {option.key for option in EXECUTE.options if getattr(again, option.key) != getattr(options, option.key)} == {
        *("entry", "threads", "check_nan")
    }
    assert again.plugin == ["more"]


def test_what_help_calls_alike_is_read_alike():
    """Every option whose help says SIZE, TIME or N, of every verb; a seed alone may be below 1."""
    for verb in VERBS:
        for option in verb.options:
            if option.value in MEANINGS and option.key != "seed":
                assert option.converter in MEANINGS[option.value], (verb.name, option.usage)


def test_what_both_commands_can_be_told_has_one_name_and_one_meaning():
    """An option by the same name has the same form in all verbs, but for the words of its help."""
    forms: dict[str, set[object]] = {}
    for verb in VERBS:
        for option in verb.options:
            for flag in option.flags:
                if (verb.name, flag) not in EXCEPTIONS:
                    forms.setdefault(flag, set()).add(option.value)
    several = {flag: found for flag, found in forms.items() if len(found) > 1}
    assert several == {}


EXCEPTIONS = {
    ("build", "--target"),  # a machine, where data pack has a column
    ("build", "-o"),  # a folder
    ("build", "--output"),
    ("merge", "-o"),  # a folder for the other layouts
    ("merge", "--output"),
    ("merge", "--layout"),  # of what is written, for other programs
    ("data pack", "--chat"),  # the folder of a model, where serve has a switch
    ("data pack", "--together"),  # texts in a row, where serve counts rows
    ("replay", "--record"),  # it reads what that of execute writes
    ("bench", "--threads"),  # several numbers, to be compared
    ("sweep", "--set"),  # several values, likewise
    ("data pack", "--split"),  # it makes splits, and all others choose one
    ("import onnx", "--input"),  # the file has the dtypes
    ("import lm", "--classes"),  # their names, where plot takes those of a program
    ("quantize", "--keep"),  # weights by pattern, where execute counts checkpoints
    ("compile", "--keep"),
    ("data pack", "--by"),  # what splits are made by
}
