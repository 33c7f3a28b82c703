"""Build a wheel and a source distribution with the packages of .venv alone: `python tools/build_dist.py dist`.

`pip wheel .` would do for the wheel, but not for the source distribution, and would fetch the build packages again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scikit_build_core.build import build_sdist, build_wheel


def main(target: str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    for build in (build_wheel, build_sdist):
        name = build(target)
        size = (Path(target) / name).stat().st_size
        print(f"{target}/{name}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "dist")
