"""Predictions over HTTP, on the local machine only: docs/serving.md.

server      starts, reports that, and stops when every accepted request is answered
connections a bounded number of connections, of which idle ones make room for new ones
gate        the checks of every request: token, host, limits; and the sentences that refuse it
busy        the error of a server that has as many requests as it takes
endpoints   the addresses of predictions, and their answers
texts       the addresses of texts of a language model
bodies      bodies of requests while they arrive
forms       formats of arrays in the bodies of requests and answers: JSON, raw elements, .npy, safetensors
json_arrays arrays in a large JSON body, read in pieces
raw_requests rows as a table has them, in JSON
image_requests images, as bodies or in JSON
row_answers  the answers to both, an object for each row
rare_warnings  warnings of values that are not known, few of many
access      tokens, the log of requests, and counts for Prometheus
predictor   rows of several requests computed together, on a thread of their own
steps       the fastest steps that cover a number of rows
"""
