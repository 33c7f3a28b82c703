"""The example of a firewall for SOAP does what the guide shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).parent.parent.parent


def test_soap() -> None:
    command = [sys.executable, str(ROOT / "examples" / "firewall" / "soap.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    guide = (ROOT / "docs" / "guide" / "firewall.md").read_text("utf-8")
    assert done.stdout.splitlines() == guide.partition("```text\n")[2].partition("```")[0].splitlines()
