"""The verbs that answer requests and messages."""

from __future__ import annotations

from pathlib import Path

from runtime.command_line.tables import PROGRAM, Option, Verb
from runtime.command_line.values import int64, port, setting
from runtime.commands.verbs.options import DECODE, HOW, MAX_MEMORY, SEED, SET, STATES
from runtime.commands.verbs.running import EXECUTE

SERVE = Verb(
    "serve",
    "answer requests for predictions over HTTP on this machine",
    "SIGTERM or Ctrl-C stops the server after it has answered all accepted requests.\nIt needs the extra `serve`.",
    (
        "runtime serve digits.pb --load trained.safetensors",
        "runtime serve digits.pb --load trained.safetensors --port 0 --threads 2 --max-body 1MiB",
        "runtime serve smol.pb --load tuned.safetensors --chat",
        "curl http://127.0.0.1:8000/predict -H 'Content-Type: application/octet-stream' --data-binary @images.raw",
    ),
    (
        PROGRAM,
        "what to serve",
        Option("--entry NAME", "entry to serve, which must not train; default predict"),
        Option(
            "--chat",
            "serve the texts of a language model, as clients of the OpenAI kind ask",
            excludes={
                "--decode": "--decode is for the fetches of an entry, and --chat serves texts; leave one of them out"
            },
        ),
        Option(
            "--tokenizer DIR",
            "with --chat: folder of the tokenizer",
            Path,
            needs={"--chat": "--tokenizer is for the texts of --chat; give --chat"},
        ),
        SEED,
        SET,
        *HOW,
        "states",
        *STATES,
        "requests",
        DECODE,
        Option("--port PORT", "port; 0 picks a free one", port, default=8000),
        Option(
            "--host ADDRESS",
            "address to listen at; one that other machines reach needs a token; default 127.0.0.1",
            default="127.0.0.1",
        ),
        Option(
            "--token-file FILE",
            "file with the token that requests must bring; default that of the variable PROGRAD_TOKEN, or none",
            Path,
        ),
        Option("--access-log FILE", "append a line for each request to a file", Path),
        Option("--max-body SIZE", "upper bound on the body of a request, as in 1MiB; default 16MiB", default=16 << 20),
        Option("--answer-time TIME", "time limit from a request to its answer, as in 500ms; default 30s", default=30.0),
        Option("--queue N", "upper bound on waiting requests; default 256", default=256),
        Option("--together N", "upper bound on the rows of a batch of requests; default that of the largest step"),
        "limits",
        MAX_MEMORY,
        Option("--max-time TIME", "stop after this time, as at a signal"),
    ),
    like=EXECUTE,
)


CHAT = Verb(
    "chat",
    "talk with a language model: it answers each line of stdin",
    "The program is one of compiler import lm. Its answers are written as they come. It needs the extra `lm`.",
    (
        "runtime chat smol.pb",
        "runtime chat smol.pb --load tuned.safetensors --set temperature=0.7 --set top_p=0.9",
        "runtime chat smol.pb --message 'What is the capital of Belgium?' --most 40",
        "runtime chat gpt2.pb --plain --message 'Once upon a time'",
    ),
    (
        PROGRAM,
        "texts",
        Option("--message TEXT", "answer this message only, in place of the lines of stdin"),
        Option("--system TEXT", "begin with this text of the system"),
        Option("--plain", "go on with each text as it is, without a template"),
        Option("--most N", "upper bound on the codes of a text"),
        Option("--stop TEXT", "end a text before this one, several times", many=True),
        Option(
            "--set NAME=NUMBER",
            "temperature, top_k, top_p or repetition_penalty; default those of the model's folder",
            setting,
            many=True,
            dest="settings",
        ),
        Option("--seed N", "seed of the texts; default 0", int64),
        Option("--tokenizer DIR", "folder of the tokenizer; default the model's", Path),
        "how to run",
        *HOW,
        "states",
        *STATES,
        "limits",
        MAX_MEMORY,
    ),
    like=EXECUTE,
)
