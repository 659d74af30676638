"""Views of how an entry runs, as text.

show_memory   every buffer of a step, its lifetime, and the buffers at the peak
show_order    when each forward op, its gradients and its updates run
show_mixed    the ops that mixed precision lowers, lets follow and keeps
show_engine   the computation of a step by an engine, in words or as code
ranks         a step as a process of several executes it, and what each of them sends
"""
