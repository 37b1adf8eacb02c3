"""`python -m ggufc`."""

import sys

from ggufc.cli import main

if __name__ == "__main__":
    sys.exit(main())
