"""Random programs, calls of single operators and tables, and judges that share no code with what they judge."""

import os

os.environ.setdefault("PROGRAD_CACHE", "off")  # a campaign writes no code into the folder of who runs it
