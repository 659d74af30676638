"""Files: found, opened, read and written whole, in formats that hold arrays.

file_reader       reads a file from its first byte to its last, and can hash on the way
held_file         files that stay open for reads at any offset during a run, and must not change
output            files that a run writes: whole or not at all, with failures raised as errors of the runtime
program_files     the files beside a program: found inside its folder, with the size and hash that the program names
safetensors_file  the safetensors format
tensor_files      arrays in files: safetensors to write and read, npy to write, npz to read
"""
