"""Reports of a run, while it goes on and at its end.

metric_fields  names of metrics in the result line
metrics_file   every step and epoch, as CSV or JSON lines
watched        histograms of parameters, for the metrics file
trace          every op, for Chrome's trace viewer
record         the inputs and results of a run, for replay
attest         a statement about a training, for audit
reproduce      a step that made NaN, kept as a program
"""
