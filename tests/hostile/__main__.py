"""`PYTHONPATH=tests python -m hostile`: see `drive`."""

import sys

from hostile.drive import main

if __name__ == "__main__":
    sys.exit(main())
