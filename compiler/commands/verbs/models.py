"""The verbs about models with their states."""

from __future__ import annotations

from compiler.commands.verbs.options import (
    FEED,
    FORCE,
    FORCE_SEVERAL,
    LOAD,
    ONLY,
    REQUIRED_OUTPUT,
    SEED_OF_INPUTS,
    WEIGHTS_FROM,
)
from runtime.command_line.tables import PROGRAM, Option, Verb, one_word
from runtime.command_line.values import one_of
from runtime.engines.choice import ENGINES

EXPORT = Verb(
    "export",
    "write an entry of a program as an ONNX file that computes the same numbers",
    "Inputs, results and weights keep their names, and unbound sizes stay symbols. --view writes any entry, also\n"
    "one that trains, with operators of our own for viewers. It needs the extra `onnx`.",
    ("compiler export digits.pb --load trained.safetensors -o digits.onnx",),
    (
        PROGRAM,
        WEIGHTS_FROM,
        Option("--entry NAME", "the entry to write; default predict", default="predict"),
        Option("--opset N", "version of ONNX's operators; default 21"),
        Option("--bind SYMBOL=SIZE", "fix the size of a symbol, as in batch=1", many=True),
        Option("--like FILE", "take names and metadata from this ONNX file"),
        Option("--raw", "take raw columns of the table that rows were packed from"),
        Option("--view", "write ops as they are, in a domain of our own"),
        Option("--external-data", "write the weights to a file beside the model"),
        Option("-o, --output FILE", "the ONNX file to write", required=True),
        FORCE,
    ),
    function="compiler.commands.models.export.export",
)


COMPARE = Verb(
    "compare",
    "run two models on the same inputs, and print the largest difference of each result and where it begins",
    "A model is an ONNX file, which ONNX Runtime runs, or a program file. Inputs are seeded unless --feed gives\n"
    "them. The exit code is 0 if all results agree and 1 if one differs.",
    ("compiler compare model.onnx model.pb --dim batch=4",),
    (
        Option("first", "a file .onnx or .pb"),
        Option("second", "another one"),
        Option("--load FILE", "take the weights of the program, or of the second one, from a file of a run"),
        Option("--entry NAME", "the entry of programs; default predict", default="predict"),
        Option("--dim NAME=SIZE", "the size of a dimension or a symbol, as in batch=4", many=True),
        SEED_OF_INPUTS,
        FEED,
        Option(f"--engine {one_word(ENGINES)}", "the engine that runs programs"),
        Option("--tolerance X", "largest |a-b| / (1+|b|) that agrees; default 1e-4", float, default=0.0001),
    ),
    function="compiler.commands.models.compare.compare",
)


GRADCHECK = Verb(
    "gradcheck",
    "compare the gradients of a program with differences of its loss, parameter by parameter",
    "Differences are computed in float64 for some elements of each parameter, with the same dropout masks. The\n"
    "column rounding compares the program's own gradients with those in float64. The exit code is 1 if a gradient\n"
    "is wrong.",
    ("compiler gradcheck tune.pb --elements 20",),
    (
        PROGRAM,
        WEIGHTS_FROM,
        Option("--entry NAME", "entry that trains; default the one that the program runs"),
        Option("--elements N", "elements of each parameter; default 8", default=8),
        Option(
            "--tolerance X",
            "largest difference from the numeric gradient, relative to the largest gradient of the parameter;"
            " default 1e-6",
            float,
            default=1e-06,
        ),
        Option(
            "--rounding X",
            "largest difference of the program's gradients from those in float64;"
            " default 1e-3, or 0.25 for a program that rounds to 16 bits",
            float,
        ),
        Option("--bind SYMBOL=SIZE", "another size of a symbol, as in batch=4", many=True),
        SEED_OF_INPUTS,
        FEED,
        Option(f"--engine {one_word(ENGINES)}", "the engine that computes the program's own gradients"),
    ),
    function="compiler.commands.models.gradcheck.gradcheck",
)


MERGE = Verb(
    "merge",
    "add low-rank adapters to their weights, and write the states of the program without adapters",
    "The file fits the program that the adapters were added to. --adapters writes the adapters alone. Language\n"
    "models are also written as folders, for PEFT or whole.",
    (
        "compiler merge tune.pb --load tuned.safetensors -o merged.safetensors",
        "compiler merge smol.pb --load tuned.safetensors --layout peft -o adapter/",
        "compiler merge smol.pb --load tuned.safetensors --layout hf -o tuned/",
        "compiler merge smol.pb --load tuned.safetensors --layout gguf -o tuned.gguf",
    ),
    (
        Option("program", "a program file with adapters"),
        LOAD,
        ONLY,
        Option("--adapters", "write the adapters alone, which is a small file"),
        Option(
            "--layout {prograd,peft,hf,gguf}",
            "of a language model: a folder of adapters for PEFT, of the whole model of Hugging Face's form, or GGUF",
            default="prograd",
        ),
        Option("-o, --output PATH", "the safetensors file to write, or the folder", required=True),
        FORCE_SEVERAL,
    ),
    function="compiler.commands.models.merge.merge",
)


QUANTIZE = Verb(
    "quantize",
    "write a program whose weights are codes of 8 or 4 bits, which take less memory and time to read",
    "Parameters of two axes or more whose last axis is a multiple of 32 become codes in blocks of 32 with a\n"
    "scale, which products widen as they read them. They are trained no longer; adapters of frozen weights are.\n"
    "With --weights int8, products and convolutions multiply integers of 8 bits.",
    (
        "compiler quantize net.pb --load trained.safetensors --weights q8_0 --keep 'head.*' -o small.pb",
        "compiler quantize net.pb --load trained.safetensors --data rows.safetensors --split train -o small.pb",
    ),
    (
        PROGRAM,
        LOAD,
        ONLY,
        Option(
            "--weights FORM",
            "store weights as codes: q8_0 takes 8.5 bits for a number, q4_0 takes 4.5; int8 multiplies integers; "
            "default int8 with --data or --split, else q8_0",
            one_of("q8_0", "q4_0", "int8"),
        ),
        Option("--data FILE", "int8: rows that give the ranges of what weights multiply"),
        Option("--split NAME", "int8: the split of these rows; default all"),
        Option("--percentile P", "int8: ranges hold this percentage of the numbers; default all", float),
        Option("--keep PATTERN", "leave matching parameters as they are", many=True),
        REQUIRED_OUTPUT,
        FORCE_SEVERAL,
    ),
    function="compiler.commands.models.quantize.quantize",
)


BUILD = Verb(
    "build",
    "write a program as a library for C, Fortran, Rust or browsers, which needs no Python",
    "The folder has:\n"
    "a static library, a shared one if a C compiler for the machine is installed, headers, the initial states,\n"
    "the runtime in C, an example, a module of Fortran and a crate of Rust; for wasm32 a module, its loader and a\n"
    "page. The steps have the bits of `runtime execute`. Machines: x86_64-linux, aarch64-linux, aarch64-android,\n"
    "riscv64-linux, armv7-linux, cortex-m7, cortex-m4, wasm32.",
    (
        "compiler build digits.pb -o out/",
        "compiler build digits.pb --target aarch64-linux --threads 4 -o out/",
        "compiler build tiny.pb --target cortex-m7 --entry train --entry predict --rows 1 -o out/",
    ),
    (
        PROGRAM,
        Option("--target MACHINE", "the machine that runs the library; default this one"),
        Option(
            "--cpu SET",
            "instruction set of the machine, as in avx2; with several, as in avx2,avx512, an instance takes the best",
        ),
        Option("--entry NAME", "build this entry; may be repeated, default all", many=True),
        Option(
            "--by-shard", "add functions for the sums of a shard and for the update, for hosts of several processes"
        ),
        Option("--rows N", "build the steps of N rows that the program has; may be repeated, default all", many=True),
        Option("--threads N", "threads that may share a step; default 1", default=1),
        Option(
            "--small", "write short code rather than fast code, with the same bits; browsers and boards always have it"
        ),
        WEIGHTS_FROM,
        Option("-o, --output FOLDER", "the folder to write", required=True, dest="folder"),
        Option("--force", "write into a folder that is not empty"),
    ),
    function="compiler.commands.models.build.build",
)
