"""The options that several verbs of `compiler` have."""

from __future__ import annotations

from runtime.command_line.tables import Option
from runtime.command_line.values import natural

FORCE = Option("--force", "replace the file of -o if it exists", needs={"-o": "--force is for -o"})
OUTPUT = Option("-o, --output FILE", "the program file to write")
DUMP_AFTER = Option("--dump-after PASS", "print the program after this pass")
MIXED = Option("--mixed DTYPE", "compute products with operands of this dtype, and keep activations in it: bfloat16")
STATES = Option("--states PATTERN", "names of parameters, as in 'hidden.*'", many=True, required=True)
REQUIRED_OUTPUT = OUTPUT._replace(required=True)
LORA = Option(
    "--lora PATTERN:r=RANK[,alpha=X]",
    "add low-rank adapters to matching weights, and freeze all other parameters, as in 'attn.*:r=8'",
    many=True,
)
BIND = Option("--bind SYMBOL=SIZE", "the size of a symbol in the written program; 1 unless given", many=True)
WEIGHTS_FROM = Option("--load FILE", "take the weights from a file that a run saved")
SEED_OF_INPUTS = Option("--seed N", "seed of the inputs; default 0", natural, default=0)
FEED = Option("--feed NAME=@FILE", ".npy file for an input; a file .safetensors or .npz alone has several", many=True)
LOAD = Option("--load FILE", "take the states from a file that a run saved")
ONLY = Option(
    "--only PATTERN",
    "with --load: these states only",
    many=True,
    needs={"--load": "--only says which states --load takes; give --load"},
)
FORCE_SEVERAL = Option("--force", "replace the files of -o that exist")
