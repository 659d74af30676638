"""Memory of the process: how it is taken, and how much of it.

aligned      aligned bytes, and typed views of them
first_touch  the pages of large memory: large pages, unless those are slow to arrive
memory_nodes large memory on machines with several nodes: each part in the node of the threads that use it
limit        the account of allocated memory
shortage     memory that is not there, in a sentence
"""
