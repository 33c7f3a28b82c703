"""How much a test does where it runs a second time, under the sanitizers (tools/sanitize.sh).

Everything takes many times as long there, and what it looks for shows in the first rounds or never: `fewer` makes
loops shorter. What the answers are is tested by the first run.
"""

from __future__ import annotations

import os

SANITIZED = bool(os.environ.get("TREECAST_SANITIZED"))


def fewer(count: int) -> int:
    """A sixth of the rounds, bytes or queries under the sanitizers; all of them otherwise."""
    return max(1, count // 6) if SANITIZED else count
