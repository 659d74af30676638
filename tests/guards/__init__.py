"""Programs run natively with every buffer between pages that nobody may touch.

    pages        regions whose buffers end, or begin, at a forbidden page, with a pattern in the rest of their pages
    engine       the native engine with all memory of its code in such regions
    trials       one program natively in three ways, whose bits are compared
    programs     good programs: networks of ordinary sizes, and the files of the repository
    campaign     many programs in child processes, so that what kills one of them ends no other

`PYTHONPATH=tests python -m guards` runs good programs in this way, and
`python tests/mutations.py --guard --count 100000 --jobs 2` runs changed ones.
"""

import os

os.environ.setdefault("PROGRAD_CACHE", "off")  # a campaign writes no code into the folder of who runs it
