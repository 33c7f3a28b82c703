"""The machine behind the figures: the processor and its load, the system, the versions of all packages used."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

from treecast.version import VERSION

PACKAGES = ("lxml", "saxonche", "pyspark", "pyarrow")


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions by name; packages that are not installed are left out."""
    version_by_name = {"Python": platform.python_version(), "treecast": VERSION}
    for package in PACKAGES:
        try:
            version_by_name[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return version_by_name


def describe() -> list[str]:
    """For people: the machine, the system and the day; the versions."""
    load = os.getloadavg()[0]
    return [
        f"{processor()}, {os.cpu_count()} CPUs, load {load:.1f}, {platform.system()} {platform.release()}, "
        f"{datetime.date.today().isoformat()}",
        ", ".join(f"{name} {version}" for name, version in versions().items()),
    ]
