"""Conversion of users' data into safetensors files that programs read.

pack     converts a source to arrays and their encoding
options  the options of packing
named    checks of the columns that an option names
tables   NumPy's files as arrays
images   folders of images
texts    lines of text, and windows of bytes or subwords
chats    conversations and texts as codes of a language model
labelled_texts  texts with classes as codes of an encoder
fit      the encoding of a column: kind, vocabulary, mean, replacement of missing values
scales   the mean and the deviation of training rows
series   windows of consecutive rows of a table
splits   rows of a split: at random, by classes, by time, by group
write    arrays to a file, whatever their order in memory
show     the content of a packed file
show_chats  how full rows of codes are, and what of them counts
"""
