"""Mutation testing: random faults in the code, and whether the tests see them.

    python tests/mutate_code.py --count 200 --jobs 2 [SEED]

1. Draw a mutation: a swapped operator, a negated condition, a constant that is off by one, a flipped truth value or a
   dropped statement, in operators, passes, kernels or engines. Equal seeds draw equal mutations of equal code.
2. Make it in a copy of the tree, which passes the tests without it.
3. Run the tests in stages until one fails: those that import the changed module, the quick ones, the slow ones, type
   checks, the thorough ones.

A line for each mutation says what saw it. Those that no stage sees survive; their changes are printed in the end, and
the exit code is 1 if there are any. A survivor is either a gap in the tests or changes nothing but speed.
`--only 17` tries mutation 17 again, and `--until quick` stops after that stage.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tiers import touched_tests

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("registry", "compiler/passes", "compiler/planning", "runtime/engines", "runtime/codegen")
"""Folders whose code is changed."""

STAGES: Final = ("touched", "quick", "slow", "types", "thorough")
STAGE_SECONDS: Final = 1800
"""A stage that takes longer has seen the mutation: the code does not end any more."""

MEMORY_BYTES: Final = 8 << 30
"""Memory that a process of the tests may take; what a mutation makes larger must not take the machine's."""

OPERATORS: Final = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
"""The source text of each operator, and the text that replaces it."""

DROPPED: Final = (ast.Expr, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)
"""Statements that may be dropped; so may assignments to elements and attributes."""


RUNNING: Final = set[int]()
"""Process groups of tests that are under way."""


@dataclass(frozen=True)
class Mutation:
    """A file, the bytes of it that are replaced, and by what."""

    path: Path
    start: int
    end: int
    replacement: bytes
    kind: str

    def apply(self, content: bytes) -> bytes:
        return content[: self.start] + self.replacement + content[self.end :]

    def diff(self) -> str:
        before = (ROOT / self.path).read_bytes()
        texts = [content.decode().splitlines() for content in (before, self.apply(before))]
        return "\n".join(difflib.unified_diff(*texts, str(self.path), str(self.path), lineterm="", n=2))

    def __str__(self) -> str:
        before = (ROOT / self.path).read_bytes()
        old = " ".join(before[self.start : self.end].decode().split())
        line = before.count(b"\n", 0, self.start) + 1
        return f"{self.path}:{line}: {self.kind}: {old[:60]} -> {self.replacement.decode()[:60]}"


def main() -> int:
    """Try the mutations; 1 if one survives."""
    options = parsed()
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    numbers = [options.only] if options.only is not None else range(options.begin, options.begin + options.count)
    mutations = {number: drawn(options.seed, number) for number in numbers}
    if options.list:
        print(*(f"{number:4} {mutation}" for number, mutation in mutations.items()), sep="\n")
        return 0
    stages = STAGES[: STAGES.index(options.until) + 1]
    survivors: list[int] = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(options.jobs):
            trees.put(copy_of_the_tree(Path(folder) / str(job)))
        failing = [stage for stage in STAGES if stage in {*stages, "quick"} and not passes(stage, Path(folder) / "0")]
        if failing:
            print(f"no mutation is tried: the stage {failing[0]} fails without one", file=sys.stderr)
            return 2
        for number, (seen, seconds) in zip(
            mutations, pool.map(lambda mutation: tried(mutation, trees, stages), mutations.values()), strict=True
        ):
            print(f"{number:4} {seen or 'SURVIVES':9} {seconds:6.0f} s  {mutations[number]}", flush=True)
            if not seen:
                survivors.append(number)
    for number in survivors:
        print(f"\nmutation {number} of seed {options.seed} survives:\n{mutations[number].diff()}")
    print(f"\n{len(mutations) - len(survivors)} of {len(mutations)} mutations seen, {len(survivors)} survive")
    return bool(survivors)


def stop(number: int, _: object) -> None:
    """End the tests that are under way, and this process."""
    for group in list(RUNNING):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    os._exit(128 + number)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--begin", type=int, default=0, help="number of the first mutation")
    parser.add_argument("--only", type=int, help="number of the only mutation to try")
    parser.add_argument("--jobs", type=int, default=1, help="mutations tried at the same time")
    parser.add_argument("--until", choices=STAGES, default=STAGES[-1], help="last stage that a mutation has to survive")
    parser.add_argument("--list", action="store_true", help="print the mutations and try none")
    return parser.parse_args()


def drawn(seed: int, number: int) -> Mutation:
    """Return a mutation; all kinds are equally likely, and so are all places of a kind."""
    rng = random.Random(f"{seed}/{number}")
    kinds = mutations_by_kind()
    return rng.choice(kinds[rng.choice(sorted(kinds))])


@cache
def mutations_by_kind() -> dict[str, list[Mutation]]:
    """Return every mutation that can be drawn."""
    kinds: defaultdict[str, list[Mutation]] = defaultdict(list)
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        content = path.read_bytes()
        for mutation in Finder(path.relative_to(ROOT), content).found(ast.parse(content)):
            kinds[mutation.kind].append(mutation)
    return dict(kinds)


class Finder:
    """Finds the mutations of a file.

    Annotations, docstrings, the arguments of exceptions and the inside of f-strings stay as they are.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self.path = path
        self.content = content
        lines = content.splitlines(keepends=True)
        self.line_starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]

    def found(self, node: ast.AST) -> Iterator[Mutation]:
        """Yield the mutations of a node and of all within it."""
        yield from self.of_statement(node)
        yield from self.of_expression(node)
        if isinstance(node, (ast.JoinedStr, ast.Raise)) or is_docstring(node):
            return
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.found(child)

    def of_statement(self, node: ast.AST) -> Iterator[Mutation]:
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield self.negated(node.test)
        if isinstance(node, ast.comprehension):
            yield from map(self.negated, node.ifs)
        stored = isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Subscript, ast.Attribute))
        if (isinstance(node, DROPPED) and not is_docstring(node)) or stored:
            yield self.replaced(*self.span(node), b"pass", "dropped statement")

    def of_expression(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.BinOp():
                yield from self.swapped(node.left, node.op, node.right)
            case ast.BoolOp():
                yield from self.swapped(node.values[0], node.op, node.values[1])
            case ast.Compare():
                operands = [node.left, *node.comparators]
                for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
                    yield from self.swapped(left, operator, right)
            case ast.Constant(value=bool(value)):
                yield self.replaced(*self.span(node), str(not value).encode(), "flipped truth value")
            case ast.Constant(value=int(value)):
                for other in (value - 1, value + 1) if value else (1,):
                    yield self.replaced(*self.span(node), str(other).encode(), "constant off by one")
            case _:
                pass

    def negated(self, test: ast.expr) -> Mutation:
        start, end = self.span(test)
        return self.replaced(start, end, b"(not (" + self.content[start:end] + b"))", "negated condition")

    def swapped(self, left: ast.expr, operator: ast.AST, right: ast.expr) -> Iterator[Mutation]:
        if type(operator) not in OPERATORS:
            return
        old, new = OPERATORS[type(operator)]
        begin, end = self.span(left)[1], self.span(right)[0]
        at = self.content.find(old.encode(), begin, end)
        if at >= 0:
            yield self.replaced(at, at + len(old), new.encode(), "swapped operator")

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the offsets of a node's first byte and of the byte behind it."""
        start = self.line_starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return start, self.line_starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def replaced(self, start: int, end: int, replacement: bytes, kind: str) -> Mutation:
        return Mutation(self.path, start, end, replacement, kind)


def is_docstring(node: ast.AST) -> bool:
    """Return True if a node is a string that stands alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def copy_of_the_tree(folder: Path) -> Path:
    """Copy the files of the tree that git does not ignore."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def tried(mutation: Mutation, trees: SimpleQueue[Path], stages: tuple[str, ...]) -> tuple[str, float]:
    """Return the stage that sees a mutation, or "" if none does, and the seconds that this took."""
    tree, begin = trees.get(), time.monotonic()
    path = tree / mutation.path
    content = path.read_bytes()
    try:
        write_code(path, mutation.apply(content))
        seen = next((stage for stage in stages if not passes(stage, tree, mutation.path)), "")
    finally:
        write_code(path, content)
        trees.put(tree)
    return seen, time.monotonic() - begin


def write_code(path: Path, content: bytes) -> None:
    """Write a module and forget its compiled code, which Python takes for new if time and size are equal."""
    path.write_bytes(content)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def passes(stage: str, tree: Path, *paths: Path) -> bool:
    """Return True if a stage sees no fault in a tree of which the files `paths` are changed."""
    pytest = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    match stage:
        case "touched":
            names = {f"test_{path.name}" for path in paths}  # first those of the module's name
            tests = sorted(
                touched_tests([ROOT / path for path in paths]), key=lambda test: (test.name not in names, test)
            )
            return not tests or ends_well(tree, [*pytest, *(str(test.relative_to(ROOT)) for test in tests)])
        case "quick":
            return ends_well(tree, [*pytest, "-m", "not thorough and not slow"])
        case "slow":
            return ends_well(tree, [*pytest, "-m", "slow and not thorough"])
        case "types":
            return ends_well(tree, ["-m", "pyright", "--pythonpath", sys.executable])
        case _:
            return ends_well(tree, [*pytest, "-m", "thorough"])


def ends_well(tree: Path, arguments: list[str]) -> bool:
    """Return True if Python, with the code of `tree`, runs the arguments without a fault and in time."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        environment = {**os.environ, "PYTHONPATH": f"{tree}:{tree}/proto", "CI": "1", "TMPDIR": folder}
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=tree,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES)),
        )
        RUNNING.add(process.pid)
        try:
            return process.wait(STAGE_SECONDS) in (0, 5)  # 5: no test was collected
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            RUNNING.remove(process.pid)


if __name__ == "__main__":
    sys.exit(main())
