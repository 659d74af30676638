"""The verbs about rows, and the values of their options."""

from __future__ import annotations

from argparse import ArgumentTypeError

from compiler.commands.verbs.options import FORCE
from compiler.data.options import SPLIT_METHODS
from prograd_proto.spelling import closest
from runtime.command_line.tables import Option, Verb
from runtime.command_line.values import int64, one_of, positive


def horizons(text: str) -> tuple[int, ...]:
    """Return different whole numbers from 1 on, in rising order."""
    return tuple(sorted({positive(part) for part in text.split(",")}))


def pair(text: str) -> tuple[str, str]:
    """Return a name and a value, from `age=mean`."""
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE, as in age=mean")
    return name, value


def joined(text: str) -> tuple[str, list[str]]:
    """Return the name of an array and patterns of columns, from `x=*_width,*_length`."""
    name, patterns = pair(text)
    return name, patterns.split(",")


def dated(text: str) -> tuple[str, list[str]]:
    """Return a name and parts of dates, from `bought=days+year_cycle`; no parts stand for the default ones."""
    name, _, parts = text.partition("=")
    if not name:
        raise ArgumentTypeError(f"{text!r} is not NAME or NAME=PARTS, as in bought=days+year_cycle")
    return name, parts.split("+") if parts else []


def length(text: str) -> tuple[str, int]:
    """Return a name and a length, from `text=100`; 0 stands for all bytes or words."""
    if "=" not in text and text:
        return text, 0
    name, value = pair(text)
    return name, positive(value)


def hashed(text: str) -> tuple[str, int]:
    """Return a name and a number of hashes, from `city=100`."""
    name, value = pair(text)
    size = positive(value)
    if size < 2:
        raise ArgumentTypeError(f"{text!r}: hashes are from 1 to SIZE - 1, so SIZE is 2 or more")
    return name, size


def share(text: str) -> tuple[str, float]:
    """Return the name of a split and its share, from `train=0.8`."""
    name, value = pair(text)
    try:
        return name, float(value)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not NAME=SHARE, as in train=0.8") from None


def split_method(text: str) -> tuple[str, str | None]:
    """Return how to split and by which column, from `stratified=label`."""
    way, equals, name = text.partition("=")
    if way not in SPLIT_METHODS:
        raise ArgumentTypeError(f"{way!r} is not one of {', '.join(SPLIT_METHODS)}{closest(way, SPLIT_METHODS)}")
    if (way == "random") == bool(equals and name):
        raise ArgumentTypeError(f"{text!r} is not HOW=NAME, as in stratified=label")
    return way, name or None


def image_size(text: str) -> tuple[int, int]:
    """Return height and width, from `32x32`."""
    height, cross, width = text.partition("x")
    if not cross:
        raise ArgumentTypeError(f"{text!r} is not HEIGHTxWIDTH, as in 32x32")
    return positive(height), positive(width)


OF_CHATS = "--length and --together are for the rows of a language model; give --chat too"

DATA_PACK = Verb(
    "data pack",
    "write a table, arrays, a folder of images or text as a file of rows",
    "The file keeps the encoding of each column, so that new rows are encoded alike. Columns of texts become\n"
    "classes, numbers stay numbers. Parquet and images need the extra `data`.",
    (
        "compiler data pack iris.csv -o rows.safetensors --join 'x=*_width,*_length' --split train=0.8",
        "compiler data pack people.csv -o rows.safetensors --missing age=median --standardise age --class city",
        "compiler data pack photos/ -o rows.safetensors --size 32x32 --split train=0.9 --by stratified=label",
        "compiler data pack new.csv -o new.safetensors --like rows.safetensors",
        "compiler data pack chats.jsonl --chat smollm2/ --length 256 --together --split test=0.1 -o rows.safetensors",
    ),
    (
        Option("source SOURCE", "a .csv, .tsv, .jsonl, .parquet, .npy, .npz or .txt file, or a folder of images"),
        Option("-o, --output FILE", "the .safetensors file to write", required=True),
        FORCE,
        Option("--like FILE", "encode rows as in this file; takes no other option of encoding"),
        "columns, by names or patterns such as 'size_*', with commas between them",
        Option("--class NAMES", "encode values as class numbers from 0 on, as for a label", many=True, dest="classes"),
        Option("--whole NAMES", "keep whole numbers, as int64", many=True),
        Option("--drop NAMES", "leave out these columns", many=True),
        Option("--one-hot NAMES", "keep classes as a float for each, 1 for the class and 0 for the others", many=True),
        Option("--indicate NAMES", "keep numbers as two floats: the number, and 1 where it was missing", many=True),
        Option("--log NAMES", "replace numbers by log(1 + x)", many=True),
        Option("--quantile NAMES", "replace numbers by the share of training rows below, from 0 to 1", many=True),
        Option("--standardise NAMES", "scale to mean 0 and deviation 1 over the training rows", many=True),
        Option("--join NAME=NAMES", "join columns of numbers into an array [rows, columns]", joined, many=True),
        Option(
            "--missing NAME=VALUE",
            "replacement of missing values: a value, mean, median or most; drop leaves out the row",
            pair,
            many=True,
        ),
        Option(
            "--text NAME[=LENGTH]",
            "encode texts as bytes plus 1: all bytes, or the first LENGTH padded with 0",
            length,
            many=True,
        ),
        Option(
            "--words NAME[=LENGTH]",
            "encode texts as word numbers from 2 on; 1 is an unknown word, 0 is padding",
            length,
            many=True,
        ),
        Option(
            "--bpe NAME[=LENGTH]",
            "encode texts as numbers of subwords by byte-pair encoding; needs tokenizers",
            length,
            many=True,
        ),
        Option(
            "--hash NAME=SIZE",
            "encode texts as hashes of their words, from 1 to SIZE - 1, without a vocabulary",
            hashed,
            many=True,
        ),
        Option(
            "--date NAME[=PARTS]",
            "encode dates as numbers, PARTS as in days+month+year_cycle; default days+year_cycle+week_cycle",
            dated,
            many=True,
        ),
        Option("--vocabulary N", "upper bound on known words; default 20000", default=20000),
        Option("--date-format FORMAT", "format of dates, as in %d.%m.%Y; default ISO 8601", default=""),
        Option("--decimal {.,}", "decimal mark; default .", one_of(".", ","), default="."),
        "splits",
        Option(
            "--split NAME=SHARE",
            "share of the rows, as in train=0.8; the first split is the one to train on",
            share,
            many=True,
        ),
        Option(
            "--by HOW=NAME",
            "split stratified, by time or by group of a column; default at random",
            split_method,
            default=("random", None),
        ),
        Option("--seed N", "seed of the random split; default 0", int64, default=0),
        "images and text",
        Option("--size HEIGHTxWIDTH", "size of images, as in 32x32", image_size),
        Option("--grey", "convert images to one channel"),
        Option("--window N", "make rows of N bytes of a .txt file, or of N rows of a table"),
        Option("--stride N", "bytes or rows between two windows; default N of --window, or 1 row"),
        Option("--target NAME", "column to predict after each window, as NAME_next"),
        Option(
            "--ahead N[,N]",
            "rows from the last of a window to its target, or to each of several; default 1",
            horizons,
            default=(1,),
        ),
        Option(
            "--known NAMES",
            "columns that are known at the rows of the targets, such as holidays, kept as NAME_next",
            many=True,
        ),
        "texts for a language model",
        Option(
            "--chat DIR",
            "make codes of conversations, prompts with completions, or texts, by tokenizer and template of a model",
        ),
        Option("--length N", "codes in a row", needs={"--chat": OF_CHATS}),
        Option("--together", "put several texts into a row, which do not see each other", needs={"--chat": OF_CHATS}),
    ),
    function="compiler.commands.data.pack",
)


DATA_SHOW = Verb(
    "data show",
    "print the arrays of a file of rows: types, ranges, first rows and encodings",
    "The file is a .safetensors or .npz file.",
    ("compiler data show rows.safetensors",),
    (Option("file FILE", "a file of rows"), Option("--rows N", "number of rows to print; default 3", default=3)),
    function="compiler.commands.data.show",
)
