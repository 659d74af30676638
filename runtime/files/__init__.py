"""Files: found, opened, read and written whole, in formats that hold arrays.

file_reader       reads a file from its first byte to its last, and can hash on the way
held_file         files that are read here and there for as long as a run lasts, and must stay what they were
output            files that a run writes: whole or not at all, and every failure an error of ours
program_files     the files beside a program: found inside its folder, of the size and hash that the program names
safetensors_file  the safetensors format
tensor_files      arrays in files: safetensors to write and read, npy to write, npz to read
"""
