"""Data as people have it, packed into safetensors files that programs read.

pack     a source to arrays, with how they were made
options  what can be asked of it
tables   CSV, Parquet, pandas and NumPy as columns
images   folders of images
texts    lines of text, and windows of bytes
fit      what a column becomes: kinds, vocabularies, means, what stands for missing values
splits   rows of a split: at random, by classes, by time, by group
write    arrays to a file, whatever their order in memory
show     what is in a packed file
extras   packages that only some sources need
"""
