"""Single operators at large extents: a depth, a row or a number of steps just beside a multiple of a block.

case      a case and the extents that it is drawn with
products, images, sequences, rows, moves, codes, chains   makers of cases
judge     values beside float64, and bits by instruction set, threads, caches and guard pages
"""
