"""Print the requirements of a group of pyproject.toml, for pip: `python tools/dependency_group.py docs`.

pip has `--group` since 25.1; the pip of a Debian 12 is older.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def requirements(group: str) -> list[str]:
    groups: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    return groups[group]


if __name__ == "__main__":
    print(*requirements(sys.argv[1]))
