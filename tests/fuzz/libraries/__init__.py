"""The campaign of random programs as libraries in C: python -m fuzz.libraries."""
