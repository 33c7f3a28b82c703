"""The report of the sample: as a file, and in a browser where there is one, in light and dark."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from oracles.report_page import check_page

from treecast.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--enable-logging=stderr"),
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # what the browser wants for itself stays here
    "--window-size=1200,1600",
]
DARK = ["--blink-settings=preferredColorScheme=0"]
PAGE_BYTES_MAX = 300_000


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("report") / "results"
    assert main(["run", "--quiet", "--output", str(output)]) == 0
    return output / "report.html"


def test_the_page_stands_alone(report: Path) -> None:
    text = report.read_text("utf-8")
    assert len(text.encode()) <= PAGE_BYTES_MAX
    page_text = check_page(text)
    for expected in ("the embedded sample", "archive/every-document", "None: every document could be read.", "Java"):
        assert expected in page_text, expected


def open_in(browser: str, page: Path, directory: Path, *more: str) -> tuple[list[str], list[str], bytes]:
    """What the page said on the console, what it asked for from elsewhere, and how it looks."""
    picture, log = directory / "page.png", directory / "net.json"
    command = [browser, *QUIET, *more, f"--user-data-dir={directory}/profile", f"--log-net-log={log}"]
    done = subprocess.run(
        [*command, f"--screenshot={picture}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HOME": str(directory)},
        check=False,
    )
    assert picture.exists(), done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    events = json.loads(log.read_text())["events"]
    starts = [event["params"] for event in events if "initiator" in event.get("params", {})]
    asked = {start["url"] for start in starts if start["initiator"] != "not an origin"}  # which is the browser itself
    return console, sorted(url for url in asked if not url.startswith(("file:", "data:"))), picture.read_bytes()


def test_a_browser_has_nothing_to_say(report: Path, tmp_path: Path, leave_out: Callable[[str], None]) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        leave_out("the report in a browser: no Chromium is installed")
        return
    looks = []
    for name, more in (("light", []), ("dark", DARK)):
        (tmp_path / name).mkdir()
        console, asked, picture = open_in(browser, report, tmp_path / name, *more)
        assert (console, asked) == ([], [])
        assert struct.unpack(">II", picture[16:24]) == (1200, 1600)
        looks.append(picture)
    assert looks[0] != looks[1]
    # The same eyes see what a page should not do.
    (tmp_path / "bad").mkdir()
    bad = tmp_path / "bad" / "page.html"
    bad.write_text('<script>console.error("oh")</script><img src="http://127.0.0.1:9/x.png">')
    console, asked, _ = open_in(browser, bad, tmp_path / "bad")
    assert "oh" in console[0]
    assert asked == ["http://127.0.0.1:9/x.png"]
