"""Rows of the table of docs/from-pytorch.md: `python -m frontends.table torchvision:resnet18 transformers:BertModel`.

Run it with PYTHONPATH=tests. A row has the largest relative differences in float32 and, with --double, in float64.
"""

from __future__ import annotations

import sys
import warnings

from frontends.agreement import agreement
from frontends.networks import network


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in [word for word in arguments if word != "--double"]:
        module, inputs = network(name)
        if "--double" in arguments:
            module = module.double()
            inputs = {key: x.double() if x.is_floating_point() else x for key, x in inputs.items()}
        try:
            found = agreement(module, inputs)
        except Exception as error:  # a row says why
            print(f"| {name} | {type(error).__name__}: {' '.join(str(error).split())[:120]} | | | |", flush=True)
            continue
        numbers = found.outputs, found.loss, found.gradients, found.statistics
        print(f"| {name} | {' | '.join(f'{n:.0e}' for n in numbers)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
