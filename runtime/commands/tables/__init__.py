"""Tables of predictions: the option `--out`.

predict   an entry run over a table, piece by piece, and its predictions written to a file
fields    the columns of the table of predictions
writers   tables as CSV, JSON lines and Parquet
"""
