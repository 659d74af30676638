"""Pictures of the reports of runs, drawn by matplotlib: curves of metrics, confusion matrices, ROC curves.

reports      the files of `execute --metrics`, read back: curves by run and metric
drawings     curves, matrices and ROC curves on one page
pages        a page as SVG, PNG or HTML
"""
