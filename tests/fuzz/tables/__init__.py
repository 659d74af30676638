"""Random tables, packed and encoded from every source: `PYTHONPATH=tests python -m fuzz.tables --count 3000 --jobs 2`.

columns  random columns: their values, how a file spells them, and the options that pack them
sources  the same table as lists, arrays, frames, files and requests
judge    the comparison of what every source gives
"""
