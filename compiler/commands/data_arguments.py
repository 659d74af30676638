"""The options of `compiler data`."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import Any

from compiler.commands.imports.format_of import IMPORTS, format_of
from compiler.data.options import SPLIT_METHODS
from prograd_proto.spelling import closest
from runtime.command_line.parsing import add_verb
from runtime.command_line.values import int64, one_of, positive


def with_verbs_of_two_words(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `data` or `import` and the next word as one word.

    `import model.onnx` and `import net.pt2` are completed by the suffix of the file, `import nets:make` by its colon.
    """
    words = list(arguments)
    at = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
    verb = words[at] if at < len(words) else ""
    if verb not in ("data", "import") or len(words) == at + 1:
        return words
    if verb == "import" and words[at + 1] not in IMPORTS:
        kind = format_of(words[at + 1 :])
        if kind is not None:
            words[at] = f"import {kind}"
        return words
    words[at : at + 2] = [" ".join(words[at : at + 2])]
    return words


def add_pack(verbs: Any) -> None:
    """Add the verb `data pack`."""
    verb = add_verb(
        verbs,
        "data pack",
        "write a table, arrays, a folder of images or text as a file of rows",
        "The file keeps the encoding of each column, so that new rows are encoded alike. Columns of texts become\n"
        "classes, numbers stay numbers. Parquet and images need the extra `data`.",
        "compiler data pack iris.csv -o rows.safetensors --join 'x=*_width,*_length' --split train=0.8",
        "compiler data pack people.csv -o rows.safetensors --missing age=median --standardise age --class city",
        "compiler data pack photos/ -o rows.safetensors --size 32x32 --split train=0.9 --by stratified=label",
        "compiler data pack new.csv -o new.safetensors --like rows.safetensors",
        "compiler data pack chats.jsonl --chat smollm2/ --length 256 --together --split test=0.1 -o rows.safetensors",
    )
    verb.set_defaults(module="data", verb="pack")
    verb.add_argument(
        "source",
        metavar="SOURCE",
        help="a .csv, .tsv, .jsonl, .parquet, .npy, .npz or .txt file, or a folder of images",
    )
    verb.add_argument("-o", "--output", metavar="FILE", required=True, help="the .safetensors file to write")
    verb.add_argument("--force", action="store_true", help="replace the file of -o if it exists")
    verb.add_argument("--like", metavar="FILE", help="encode rows as in this file; takes no other option of encoding")
    columns = verb.add_argument_group("columns, by names or patterns such as 'size_*', with commas between them")
    many = [
        ("--class", "classes", "encode values as class numbers from 0 on, as for a label"),
        ("--whole", "whole", "keep whole numbers, as int64"),
        ("--drop", "drop", "leave out these columns"),
        ("--one-hot", "one_hot", "keep classes as a float for each, 1 for the class and 0 for the others"),
        ("--indicate", "indicate", "keep numbers as two floats: the number, and 1 where it was missing"),
        ("--log", "log", "replace numbers by log(1 + x)"),
        ("--quantile", "quantile", "replace numbers by the share of training rows below, from 0 to 1"),
        ("--standardise", "standardise", "scale to mean 0 and deviation 1 over the training rows"),
    ]
    for flag, dest, help in many:
        columns.add_argument(flag, dest=dest, action="append", default=[], metavar="NAMES", help=help)
    pairs = [
        ("--join", _pair, "NAME=NAMES", "join columns of numbers into an array [rows, columns]"),
        (
            "--missing",
            _pair,
            "NAME=VALUE",
            "replacement of missing values: a value, mean, median or most; drop leaves out the row",
        ),
        (
            "--text",
            _length,
            "NAME[=LENGTH]",
            "encode texts as bytes plus 1: all bytes, or the first LENGTH padded with 0",
        ),
        (
            "--words",
            _length,
            "NAME[=LENGTH]",
            "encode texts as word numbers from 2 on; 1 is an unknown word, 0 is padding",
        ),
        (
            "--bpe",
            _length,
            "NAME[=LENGTH]",
            "encode texts as numbers of subwords by byte-pair encoding; needs tokenizers",
        ),
        (
            "--hash",
            _hashed,
            "NAME=SIZE",
            "encode texts as hashes of their words, from 1 to SIZE - 1, without a vocabulary",
        ),
        (
            "--date",
            _dated,
            "NAME[=PARTS]",
            "encode dates as numbers, PARTS as in days+month+year_cycle; default days+year_cycle+week_cycle",
        ),
    ]
    for flag, kind, metavar, help in pairs:
        columns.add_argument(flag, action="append", default=[], type=kind, metavar=metavar, help=help)
    columns.add_argument(
        "--vocabulary", type=positive, default=20_000, metavar="N", help="upper bound on known words; default 20000"
    )
    columns.add_argument(
        "--date-format", default="", metavar="FORMAT", help="format of dates, as in %%d.%%m.%%Y; default ISO 8601"
    )
    columns.add_argument(
        "--decimal", type=one_of(".", ","), default=".", metavar="{.,}", help="decimal mark; default ."
    )
    splits = verb.add_argument_group("splits")
    splits.add_argument(
        "--split", action="append", default=[], type=_share, metavar="NAME=SHARE",
        help="share of the rows, as in train=0.8; the first split is the one to train on",
    )  # fmt: skip
    splits.add_argument(
        "--by", type=_way, default=("random", None), metavar="HOW=NAME",
        help="split stratified, by time or by group of a column; default at random",
    )  # fmt: skip
    splits.add_argument("--seed", type=int64, default=0, metavar="N", help="seed of the random split; default 0")
    others = verb.add_argument_group("images and text")
    others.add_argument("--size", type=_size, metavar="HEIGHTxWIDTH", help="size of images, as in 32x32")
    others.add_argument("--grey", action="store_true", help="convert images to one channel")
    others.add_argument(
        "--window", type=positive, metavar="N", help="make rows of N bytes of a .txt file, or of N rows of a table"
    )
    others.add_argument(
        "--stride",
        type=positive,
        metavar="N",
        help="bytes or rows between two windows; default N of --window, or 1 row",
    )
    others.add_argument("--target", metavar="NAME", help="column to predict after each window, as NAME_next")
    others.add_argument(
        "--ahead", type=_horizons, default=(1,), metavar="N[,N]",
        help="rows from the last of a window to its target, or to each of several; default 1",
    )  # fmt: skip
    others.add_argument(
        "--known", action="append", default=[], metavar="NAMES",
        help="columns that are known at the rows of the targets, such as holidays, kept as NAME_next",
    )  # fmt: skip
    chats = verb.add_argument_group("texts for a language model")
    chats.add_argument(
        "--chat", metavar="DIR",
        help="make codes of conversations, prompts with completions, or texts, by tokenizer and template of a model",
    )  # fmt: skip
    chats.add_argument("--length", type=positive, metavar="N", help="codes in a row")
    chats.add_argument(
        "--together", action="store_true", help="put several texts into a row, which do not see each other"
    )


def add_show(verbs: Any) -> None:
    """Add the verb `data show`."""
    verb = add_verb(
        verbs,
        "data show",
        "print the arrays of a file of rows: types, ranges, first rows and encodings",
        "The file is a .safetensors or .npz file.",
        "compiler data show rows.safetensors",
    )
    verb.set_defaults(module="data", verb="show")
    verb.add_argument("file", metavar="FILE", help="a file of rows")
    verb.add_argument("--rows", type=positive, default=3, metavar="N", help="number of rows to print; default 3")


def _horizons(text: str) -> tuple[int, ...]:
    """Return different whole numbers from 1 on, in rising order."""
    return tuple(sorted({positive(part) for part in text.split(",")}))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE, as in age=mean")
    return name, value


def _dated(text: str) -> tuple[str, list[str]]:
    name, _, parts = text.partition("=")
    if not name:
        raise ArgumentTypeError(f"{text!r} is not NAME or NAME=PARTS, as in bought=days+year_cycle")
    return name, parts.split("+") if parts else []


def _length(text: str) -> tuple[str, int]:
    if "=" not in text and text:
        return text, 0
    name, value = _pair(text)
    return name, positive(value)


def _hashed(text: str) -> tuple[str, int]:
    name, value = _pair(text)
    size = positive(value)
    if size < 2:
        raise ArgumentTypeError(f"{text!r}: hashes are from 1 to SIZE - 1, so SIZE is 2 or more")
    return name, size


def _share(text: str) -> tuple[str, float]:
    name, value = _pair(text)
    try:
        return name, float(value)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not NAME=SHARE, as in train=0.8") from None


def _way(text: str) -> tuple[str, str | None]:
    way, equals, name = text.partition("=")
    if way not in SPLIT_METHODS:
        raise ArgumentTypeError(f"{way!r} is not one of {', '.join(SPLIT_METHODS)}{closest(way, SPLIT_METHODS)}")
    if (way == "random") == bool(equals and name):
        raise ArgumentTypeError(f"{text!r} is not HOW=NAME, as in stratified=label")
    return way, name or None


def _size(text: str) -> tuple[int, int]:
    height, cross, width = text.partition("x")
    if not cross:
        raise ArgumentTypeError(f"{text!r} is not HEIGHTxWIDTH, as in 32x32")
    return positive(height), positive(width)
