"""What is said and kept of a run, while it goes on and when it is over.

progress       what is reported meanwhile, on stderr
metric_fields  what metrics are called in the result line
metrics_file   every step and epoch, as CSV or JSON lines
watched        histograms of parameters, for the file of metrics
trace          every op, for Chrome's trace viewer
record         what was run and what it gave, for replay
reproduce      a step that made NaN, kept as a program
"""
