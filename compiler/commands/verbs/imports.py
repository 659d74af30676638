"""The verbs that import models."""

from __future__ import annotations

from compiler.commands.verbs.options import BIND, FORCE, LORA, MIXED, OUTPUT
from runtime.command_line.tables import Option, Verb
from runtime.command_line.values import int64, one_of, positive


def classes(text: str) -> int | list[str]:
    """Return the number of classes, from `2`, or their names, from `bad,good`."""
    return positive(text) if text.isascii() and text.isdecimal() else text.split(",")


EXPLAIN = Option("--explain", "print what cannot be imported, and write nothing")

OUTPUT_OR_EXPLAIN = {
    "-o --explain": "import: -o FILE names the program to write, or --explain prints what cannot be imported"
}

TRAINING = "import onnx: training needs both --loss and --optimizer"

IMPORT_ONNX = Verb(
    "import onnx",
    "write an ONNX file as a program, with its weights beside it",
    "The program predicts under the names of the file. With --loss and --optimizer it also trains the parameters\n"
    "that match --train, all of them unless given. Reading runs no code. It needs the extra `onnx`.",
    (
        "compiler import model.onnx -o model.pb",
        "compiler import onnx model.onnx --loss softmax_cross_entropy --train 'head.*' --optimizer adam:1e-3 --batch 16"
        " -o tune.pb",
    ),
    (
        Option("source FILE", "an ONNX file; its external data is read from its folder", needs=OUTPUT_OR_EXPLAIN),
        Option(
            "--input NAME=[SHAPE]",
            "the shape of an input in place of the file's, as in image=[batch,3,224,224]",
            many=True,
        ),
        Option("--dim NAME=SIZE", "fix a dimension that the file names", many=True),
        Option(
            "--constant NAME=VALUES",
            "the values of an input that has to be known while importing, as in shape=1,64",
            many=True,
        ),
        Option("--max-rows NAME=COUNT", "bound a result whose number of rows is data, as of NonZero", many=True),
        Option("--outputs NAME", "import these results alone; any tensor of the file may be one", many=True, nargs="+"),
        Option("--max-memory SIZE", "memory limit of the process, as in 2GiB"),
        Option("--max-time TIME", "time limit of the import, as in 5min"),
        EXPLAIN,
        Option(
            "--loss NAME",
            "train: a loss of ops, of the first result and an input `target`",
            needs={"--optimizer": TRAINING},
        ),
        Option(
            "--train PATTERN",
            "train matching parameters only",
            many=True,
            needs=dict.fromkeys(
                ("--loss", "--optimizer"), "import onnx: --train chooses what --loss and --optimizer train; give both"
            ),
        ),
        Option("--optimizer NAME:RATE", "train with it, as in adam:1e-3", needs={"--loss": TRAINING}),
        LORA,
        Option("--tie", "make matrices that are copies of others one parameter again"),
        Option("--untie", "give each node its own copy of a weight that several read"),
        Option("--fake-quantize", "round as a quantised file does, and let gradients pass"),
        Option("--integers", "compute products of a quantised file in integers, without gradients"),
        Option("--names", "print a row for each weight: name, shape, trained, why"),
        Option("--batch N", "the size of the first axis of the first input"),
        BIND,
        MIXED,
        OUTPUT,
        FORCE,
    ),
    function="compiler.commands.imports.import_onnx.import_onnx",
)


IMPORT_TORCH = Verb(
    "import torch",
    "write a module of PyTorch as a program, with its weights beside it",
    "The source is a function that makes the module, or a file that torch.export.save wrote. Both run code: the\n"
    "function is called, and a file is read by PyTorch's loader. It needs the extra `torch`.",
    (
        "compiler import torch mypackage.nets:make --input image=float32[batch,3,224,224] -o net.pb",
        "compiler import torch net.pt2 -o net.pb --bind batch=32",
    ),
    (
        Option("source SOURCE", "module:function, or a .pt2 file", needs=OUTPUT_OR_EXPLAIN),
        Option(
            "--input NAME=DTYPE[SHAPE]",
            "an input of a module in the order of its arguments, as in image=float32[batch,3,224,224]",
            many=True,
        ),
        Option("--layout {prograd,torch}", "prograd has the channels of images last", default="torch"),
        BIND,
        MIXED,
        LORA,
        EXPLAIN,
        OUTPUT,
        FORCE,
    ),
    function="compiler.commands.import_torch.import_torch",
)


IMPORT_LM = Verb(
    "import lm",
    "write a language model of Hugging Face's form as a program that trains and answers",
    "The source is a folder with config.json, model.safetensors and tokenizer.json. Weights in the folder of the\n"
    "program, or below, are read where they are. --lora or --train names what is trained.",
    (
        "compiler import lm smollm2/ --data rows.safetensors --lora 'q_proj,v_proj:r=8,alpha=16' \\",
        "    --optimizer adamw:2e-4 --batch 4 -o smol.pb",
        "compiler import lm smollm2/ -o smol.pb    # to talk with it: runtime chat smol.pb",
    ),
    (
        Option("source DIR", "the folder of the model"),
        Option("--data FILE", "rows of compiler data pack --chat, which the program trains on"),
        Option("--length N", "codes in a row; default those of --data, or 256"),
        Option(
            "--classes NAMES",
            "classes of an encoder, as in 'bad,good', or their number; default those of --data, or of the folder",
            classes,
        ),
        Option("--vocabulary N", "codes of the model; further ones begin as the mean of others"),
        Option("--batch N", "rows of a step; default 1", default=1),
        LORA,
        Option("--train PATTERN", "train these weights whole, as in 'model.layers.28.*'; several times", many=True),
        Option(
            "--weights FORM",
            "store weights as codes: q8_0 takes 8.5 bits for a number, q4_0 takes 4.5",
            one_of("q8_0", "q4_0"),
        ),
        Option("--peft DIR", "begin with the adapters of a folder of PEFT, and train them"),
        Option("--optimizer NAME:RATE", "default adamw:2e-4; --set rate=1e-4 changes the rate"),
        Option("--accumulate N", "steps of one update; default 1", default=1),
        Option("--epochs N", "passes over the rows; default 3", default=3),
        Option("--seed N", "seed of the program; default 0", int64, default=0),
        Option("--positions N", "codes of a text that is written, with its prompt; default 512"),
        Option("--texts N", "texts written at a time; default 1", default=1),
        MIXED,
        OUTPUT,
        FORCE,
    ),
    function="compiler.commands.imports.import_lm.import_lm",
)
