"""Arrays from the command line, and to it.

feeds       arrays for feeds, from files and JSON values
fetches     fetched arrays: printed, written, or compared with files
decoding    fetched numbers, decoded into the values of a column
hints       notes about predictions that are not shown, or scaled
"""
