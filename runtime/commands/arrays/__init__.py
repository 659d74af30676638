"""Arrays from the command line, and to it.

feeds       from files and JSON values, for feeds
fetches     what an entry fetched: printed, written, or compared with files
decoding    numbers that an entry fetches, as the values that they stand for
"""
