"""Tables: files of new rows, read in pieces, and values of Python as columns.

read_table   the pieces of a table, by the suffix of its file
piece        some consecutive rows of a table
opened       files that may be compressed by gzip
csv_pieces   pieces of a CSV file
json_pieces  pieces of JSON lines
text_pieces  pieces of a text
arrow        Parquet, and frames of any package by Arrow's interfaces, as columns
image_files  folders of images: their paths, and the pixels of each
columns      frames of pandas, mappings and lists as columns
extras       packages that only some tables need
"""
