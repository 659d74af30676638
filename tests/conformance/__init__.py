"""The backend tests of the package onnx, through import and both engines.

backend       one case: import, run, compare at the case's own tolerance
run           all cases, and the list of those that do not pass
mutated       mutated files, each imported or refused in one sentence
test_sample   a sample of them in every run of the tests
light         the light models with seeded weights, beside ONNX Runtime
not_passing   that list with a reason for each, in not_passing.tsv; it may only shrink
"""
