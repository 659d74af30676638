"""Parts of a batch prediction: ranges of rows, each computed by a process of its own.

part      the rows of a part
cluster   all parts, by the workers of a Dask cluster, and their results joined
"""
