"""How values that people write became numbers, kept with packed rows: new rows are encoded alike, and labels decoded.

column    one column: numbers, classes, texts, or columns side by side
values    what people write as numbers and texts, and what stands for none
tokens    texts as numbers of words or bytes, and texts again
lists     rows that are lists
images    the size and the channels of images
encoding  all columns of a file, as a line of JSON in its header
csv_lines  the lines of a CSV file, in blocks that are counted for the memory limit
csv_rows  the columns of a CSV file as texts
row_errors  errors that name a row, or the line of the file in which it begins
"""
