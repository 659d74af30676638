"""Random modules of PyTorch, imported, and judged by PyTorch itself: outputs, gradients, statistics, and five steps.

draw     random modules, as lines of code that users write
pieces   the lines by rank of the tensor that they take
kept     lines that keep, share, index and write, and lines that change a module once it is made
parts    modules that keep something between calls, or share and nest
judge    the comparison of an import with its module, by both engines
__main__ a campaign: `PYTHONPATH=tests python -m fuzz.modules --count 100 --start 0`
"""
