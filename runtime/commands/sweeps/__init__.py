"""The runs of a sweep, and their results.

runs     every combination of settings and seeds, each in a process, some concurrently
cluster  the workers of a Dask cluster, as the place of the runs
merged   runs of parts, read from their files
search   the settings that are tried: combinations, random ones, or those that a search proposes
table    the ranking of the runs, as a table and as JSON
seeds    the mean and the deviation of each metric over the seeds of equal settings
"""
