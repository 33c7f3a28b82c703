"""The other process of `treecast.measure.process`: measures the cell that a directory describes."""

import sys
from pathlib import Path

from treecast.measure.process import serve

serve(Path(sys.argv[1]))
