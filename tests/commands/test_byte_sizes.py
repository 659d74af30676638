"""Sizes on the command line: one way to write them, in both commands."""

from argparse import ArgumentTypeError

import pytest

from compiler.__main__ import _bytes as of_the_compiler
from prograd_proto.byte_sizes import byte_size
from runtime.commands.arguments import _bytes as of_the_runtime

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


@pytest.mark.parametrize("parse", [byte_size, of_the_compiler, of_the_runtime])
@pytest.mark.parametrize("text", SIZES)
def test_a_size_means_the_same_wherever_it_is_given(parse, text: str):
    assert parse(text) == SIZES[text]


@pytest.mark.parametrize("parse", [of_the_compiler, of_the_runtime])
@pytest.mark.parametrize("text", ["", "-1", "1e3", "MiB", "1 MiB", "1XB", "1.MiB", ".5MiB", "१", "1" * 19, "nan"])
def test_what_is_no_size_is_refused_in_the_same_words(parse, text: str):
    with pytest.raises(ArgumentTypeError) as caught:
        parse(text)
    assert str(caught.value) == f"{text!r} is not a size as 1.5MiB, 1GB or 1000000"
