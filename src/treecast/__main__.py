"""`python -m treecast` is the command `treecast`."""

import sys

from treecast.cli import main

if __name__ == "__main__":
    sys.exit(main())
