"""Predictions over HTTP, on the machine itself: docs/serving.md.

server      starts, says so, and stops when every request that was taken is answered
endpoints   what can be asked, under which limits, and what is answered
bodies      bodies of requests while they come
forms       arrays in the bodies of requests and answers: JSON, raw elements, .npy, safetensors
json_arrays arrays in a large JSON body, read in pieces
predictor   rows of several requests computed together, on a thread of their own
steps       steps that cover any number of rows in the least time
"""
