"""Data as people have it, packed into safetensors files that programs read.

pack     a source to arrays, with how they were made
options  what can be asked of it
named    columns that an option names and cannot use
tables   CSV, pandas and NumPy as columns
arrow    Parquet, and frames of any package by Arrow's interfaces, as columns
images   folders of images
texts    lines of text, and windows of bytes
fit      what a column becomes: kinds, vocabularies, means, what stands for missing values
splits   rows of a split: at random, by classes, by time, by group
write    arrays to a file, whatever their order in memory
show     what is in a packed file
extras   packages that only some sources need
"""
