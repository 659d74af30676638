"""How values that people write became numbers, kept with packed rows: new rows are encoded alike, and labels decoded.

column    one column: numbers, classes, texts, or columns side by side
encoding  all columns of a file, as a line of JSON in its header
csv_rows  the columns of a CSV file as texts
"""
