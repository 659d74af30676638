"""Files that lie, through every verb of both commands.

    verbs       the calls, listed from the parsers
    programs    small good programs
    messages    changes to a program: fields, names, grafts, numbers, plans
    files       changes to the other files: safetensors, npz, npy, text, CSV, JSON, checkpoints
    encodings   changes to the encoding of a table's columns
    judge       one call in this process, and what is wrong with how it ended
    cases       a case from a seed, and a smaller one that fails alike
    bombs       compile bombs: small files whose code, memory or time is large
    defused     bombs under limits, `PYTHONPATH=tests python -m hostile.defused`
    onnx_models good and hostile files of ONNX
    limited     ONNX files and programs under limits, `PYTHONPATH=tests python -m hostile.limited --count 5000`
    __main__    `PYTHONPATH=tests python -m hostile --count 100000 --jobs 2`

A verb that is added to a parser is called from then on.
"""

import os

os.environ.setdefault("PROGRAD_CACHE", "off")  # a campaign writes no code into the folder of who runs it
