"""Planning a finished program with care: budgets, values that wait in a file, room for threads.

give_room          lay out memory so that several threads find more to do at once
keep_budget        let no arena be larger than a budget
pipeline           the passes that `plan` runs on a finished program, in order: a second list to read aloud
plan_program       plan the memory of a finished program with care, within a budget if there is one
planned_bytes      which bytes each op of a block touches, as its plan places them
prefetch           start to bring values back from the file before they are needed
rematerialise      lower the peak of a step by computing values again, or by moving them to a file
timeline           a step in which ops are repeated and values spilled: its graph, its order, what is live
simulated_threads  ops on several threads, by what they are estimated to cost: when each one starts and stops
time_limit         a limit of seconds for a search that could go on: what has been found by then counts
write_timeline     from a timeline back to a block: repeated ops get ids and tensors of their own
"""
