"""The mapping of values to numbers, kept with packed rows: it encodes new rows alike, and decodes labels.

column    one column: numbers, classes, texts, or columns side by side
column_fields  the check of an encoding in a file, field by field
values    the forms of numbers, texts and missing values in tables
class_texts  the one spelling of a class, whatever its source
tokens    as numbers of words or bytes, and texts again
dates     dates and times as numbers
transforms  logarithms and quantiles of numbers
series    windows of consecutive rows
subwords  texts as numbers of subwords, by byte-pair encoding
lists     rows that are lists
images    the size and the channels of images
class_names  the names of classes, for confusion matrices
scores    the class with the largest score, and no class where a score is NaN
encoding  all columns of a file, as a line of JSON in its header
csv_dialect  the separator of a CSV file, from its first lines
csv_lines  the lines of a CSV file, in blocks that are counted for the memory limit
csv_rows  the columns of a CSV file as texts
row_errors  errors that name a row, or the line of the file in which it begins
"""
