"""The options of the verbs about models."""

from __future__ import annotations

import argparse
from typing import Any

from runtime.command_line.parsing import add_verb
from runtime.command_line.values import one_of, positive
from runtime.engines.choice import ENGINES


def add_export(verbs: Any) -> None:
    """Add the verb `export`."""
    verb = add_verb(
        verbs,
        "export",
        "write an entry of a program as an ONNX file that computes the same numbers",
        "Inputs, results and weights keep their names, and unbound sizes stay symbols. --view writes any entry, also\n"
        "one that trains, with operators of our own for viewers. It needs the extra `onnx`.",
        "compiler export digits.pb --load trained.safetensors -o digits.onnx",
    )
    verb.set_defaults(module="models.export", verb="export")
    verb.add_argument("program", help="a program file")
    verb.add_argument("--load", metavar="FILE", help="take the weights from a file that a run saved")
    verb.add_argument("--entry", metavar="NAME", default="predict", help="the entry to write; default predict")
    verb.add_argument("--opset", type=positive, metavar="N", help="version of ONNX's operators; default 21")
    _add_sizes(verb, "--bind", "SYMBOL=SIZE", "fix the size of a symbol, as in batch=1")
    verb.add_argument("--like", metavar="FILE", help="take names and metadata from this ONNX file")
    verb.add_argument("--raw", action="store_true", help="take raw columns of the table that rows were packed from")
    verb.add_argument("--view", action="store_true", help="write ops as they are, in a domain of our own")
    verb.add_argument("--external-data", action="store_true", help="write the weights to a file beside the model")
    verb.add_argument("-o", "--output", metavar="FILE", required=True, help="the ONNX file to write")
    verb.add_argument("--force", action="store_true", help="replace the file of -o if it exists")


def add_compare(verbs: Any) -> None:
    """Add the verb `compare`."""
    verb = add_verb(
        verbs,
        "compare",
        "run two models on the same inputs, and print the largest difference of each result and where it begins",
        "A model is an ONNX file, which ONNX Runtime runs, or a program file. Inputs are seeded unless --feed gives\n"
        "them. The exit code is 0 if all results agree and 1 if one differs.",
        "compiler compare model.onnx model.pb --dim batch=4",
    )
    verb.set_defaults(module="models.compare", verb="compare")
    verb.add_argument("first", help="a file .onnx or .pb")
    verb.add_argument("second", help="another one")
    verb.add_argument(
        "--load", metavar="FILE", help="take the weights of the program, or of the second one, from a file of a run"
    )
    verb.add_argument("--entry", metavar="NAME", default="predict", help="the entry of programs; default predict")
    _add_sizes(verb, "--dim", "NAME=SIZE", "the size of a dimension or a symbol, as in batch=4")
    _add_feeds(verb)
    _add_engine(verb, "the engine that runs programs")
    verb.add_argument(
        "--tolerance", type=float, default=1e-4, metavar="X", help="largest |a-b| / (1+|b|) that agrees; default 1e-4"
    )


def add_gradcheck(verbs: Any) -> None:
    """Add the verb `gradcheck`."""
    verb = add_verb(
        verbs,
        "gradcheck",
        "compare the gradients of a program with differences of its loss, parameter by parameter",
        "Differences are computed in float64 for some elements of each parameter, with the same dropout masks. The\n"
        "column rounding compares the program's own gradients with those in float64. The exit code is 1 if a gradient\n"
        "is wrong.",
        "compiler gradcheck tune.pb --elements 20",
    )
    verb.set_defaults(module="models.gradcheck", verb="gradcheck")
    verb.add_argument("program", help="a program file")
    verb.add_argument("--load", metavar="FILE", help="take the weights from a file that a run saved")
    verb.add_argument("--entry", metavar="NAME", help="entry that trains; default the one that the program runs")
    verb.add_argument("--elements", type=positive, default=8, metavar="N", help="elements of each parameter; default 8")
    verb.add_argument(
        "--tolerance", type=float, default=1e-6, metavar="X",
        help="largest difference from the numeric gradient, relative to the largest gradient of the parameter;"
        " default 1e-6",
    )  # fmt: skip
    verb.add_argument(
        "--rounding", type=float, metavar="X",
        help="largest difference of the program's gradients from those in float64;"
        " default 1e-3, or 0.25 for a program that rounds to 16 bits",
    )  # fmt: skip
    _add_sizes(verb, "--bind", "SYMBOL=SIZE", "another size of a symbol, as in batch=4")
    _add_feeds(verb)
    _add_engine(verb, "the engine that computes the program's own gradients")


def add_merge(verbs: Any) -> None:
    """Add the verb `merge`."""
    verb = add_verb(
        verbs,
        "merge",
        "add low-rank adapters to their weights, and write the states of the program without adapters",
        "The file fits the program that the adapters were added to. --adapters writes the adapters alone. Language\n"
        "models are also written as folders, for PEFT or whole.",
        "compiler merge tune.pb --load tuned.safetensors -o merged.safetensors",
        "compiler merge smol.pb --load tuned.safetensors --layout peft -o adapter/",
        "compiler merge smol.pb --load tuned.safetensors --layout hf -o tuned/",
        "compiler merge smol.pb --load tuned.safetensors --layout gguf -o tuned.gguf",
    )
    verb.set_defaults(module="models.merge", verb="merge")
    verb.add_argument("program", help="a program file with adapters")
    verb.add_argument("--load", metavar="FILE", help="take the states from a file that a run saved")
    verb.add_argument("--only", action="append", default=[], metavar="PATTERN", help="with --load: these states only")
    verb.add_argument("--adapters", action="store_true", help="write the adapters alone, which is a small file")
    verb.add_argument(
        "--layout", type=one_of("prograd", "peft", "hf", "gguf"), default="prograd", metavar="{prograd,peft,hf,gguf}",
        help="of a language model: a folder of adapters for PEFT, of the whole model of Hugging Face's form, or GGUF",
    )  # fmt: skip
    verb.add_argument(
        "-o", "--output", metavar="PATH", required=True, help="the safetensors file to write, or the folder"
    )
    verb.add_argument("--force", action="store_true", help="replace the files of -o that exist")


def add_quantize(verbs: Any) -> None:
    """Add the verb `quantize`."""
    verb = add_verb(
        verbs,
        "quantize",
        "write a program whose weights are codes of 8 or 4 bits, which take less memory and time to read",
        "Parameters of two axes or more whose last axis is a multiple of 32 become codes in blocks of 32 with a\n"
        "scale, which products widen as they read them. They are trained no longer; adapters of frozen weights are.\n"
        "With --weights int8, products and convolutions multiply integers of 8 bits.",
        "compiler quantize net.pb --load trained.safetensors --weights q8_0 --keep 'head.*' -o small.pb",
        "compiler quantize net.pb --load trained.safetensors --data rows.safetensors --split train -o small.pb",
    )
    verb.set_defaults(module="models.quantize", verb="quantize")
    verb.add_argument("program", help="a program file")
    verb.add_argument("--load", metavar="FILE", help="take the states from a file that a run saved")
    verb.add_argument("--only", action="append", default=[], metavar="PATTERN", help="with --load: these states only")
    verb.add_argument(
        "--weights", type=one_of("q8_0", "q4_0", "int8"), metavar="FORM",
        help="store weights as codes: q8_0 takes 8.5 bits for a number, q4_0 takes 4.5; int8 multiplies integers; "
        "default int8 with --data or --split, else q8_0",
    )  # fmt: skip
    verb.add_argument("--data", metavar="FILE", help="int8: rows that give the ranges of what weights multiply")
    verb.add_argument("--split", metavar="NAME", help="int8: the split of these rows; default all")
    verb.add_argument(
        "--percentile", type=float, metavar="P", help="int8: ranges hold this percentage of the numbers; default all"
    )
    verb.add_argument(
        "--keep", action="append", default=[], metavar="PATTERN", help="leave matching parameters as they are"
    )
    verb.add_argument("-o", "--output", metavar="FILE", required=True, help="the program file to write")
    verb.add_argument("--force", action="store_true", help="replace the files of -o that exist")


def add_build(verbs: Any) -> None:
    """Add the verb `build`."""
    verb = add_verb(
        verbs,
        "build",
        "write a program as a library for C, Fortran, Rust or browsers, which needs no Python",
        "The folder has:\n"
        "a static library, a shared one if a C compiler for the machine is installed, headers, the initial states,\n"
        "the runtime in C, an example, a module of Fortran and a crate of Rust; for wasm32 a module, its loader and a\n"
        "page. The steps have the bits of `runtime execute`. Machines: x86_64-linux, aarch64-linux, aarch64-android,\n"
        "riscv64-linux, armv7-linux, cortex-m7, cortex-m4, wasm32.",
        "compiler build digits.pb -o out/",
        "compiler build digits.pb --target aarch64-linux --threads 4 -o out/",
        "compiler build tiny.pb --target cortex-m7 --entry train --entry predict --rows 1 -o out/",
    )
    verb.set_defaults(module="models.build", verb="build")
    verb.add_argument("program", help="a program file")
    verb.add_argument("--target", metavar="MACHINE", help="the machine that runs the library; default this one")
    verb.add_argument(
        "--cpu", metavar="SET",
        help="instruction set of the machine, as in avx2; with several, as in avx2,avx512, an instance takes the best",
    )  # fmt: skip
    verb.add_argument(
        "--entry", action="append", default=[], metavar="NAME", help="build this entry; may be repeated, default all"
    )
    verb.add_argument(
        "--by-shard", action="store_true",
        help="add functions for the sums of a shard and for the update, for hosts of several processes",
    )  # fmt: skip
    verb.add_argument(
        "--rows", action="append", default=[], type=positive, metavar="N",
        help="build the steps of N rows that the program has; may be repeated, default all",
    )  # fmt: skip
    verb.add_argument(
        "--threads", type=positive, default=1, metavar="N", help="threads that may share a step; default 1"
    )
    verb.add_argument(
        "--small", action="store_true",
        help="write short code rather than fast code, with the same bits; browsers and boards always have it",
    )  # fmt: skip
    verb.add_argument("--load", metavar="FILE", help="take the weights from a file that a run saved")
    verb.add_argument("-o", "--output", dest="folder", metavar="FOLDER", required=True, help="the folder to write")
    verb.add_argument("--force", action="store_true", help="write into a folder that is not empty")


def add_weights(verb: argparse.ArgumentParser, default: str | None) -> None:
    """Add the option --weights of verbs that write codes of few bits."""
    told = f"; default {default}" if default else ""
    verb.add_argument(
        "--weights", type=one_of("q8_0", "q4_0"), default=default, metavar="FORM",
        help=f"store weights as codes: q8_0 takes 8.5 bits for a number, q4_0 takes 4.5{told}",
    )  # fmt: skip


def add_lora(verb: argparse.ArgumentParser) -> None:
    """Add the option --lora of verbs that import."""
    verb.add_argument(
        "--lora", action="append", default=[], metavar="PATTERN:r=RANK[,alpha=X]",
        help="add low-rank adapters to matching weights, and freeze all other parameters, as in 'attn.*:r=8'",
    )  # fmt: skip


def _add_sizes(verb: argparse.ArgumentParser, word: str, metavar: str, help: str) -> None:
    verb.add_argument(word, action="append", default=[], metavar=metavar, help=help)


def _add_feeds(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the inputs; default 0")
    verb.add_argument(
        "--feed", action="append", default=[], metavar="NAME=@FILE",
        help=".npy file for an input; a file .safetensors or .npz alone has several",
    )  # fmt: skip


def _add_engine(verb: argparse.ArgumentParser, help: str) -> None:
    verb.add_argument("--engine", choices=ENGINES, metavar=f"{{{','.join(ENGINES)}}}", help=help)
