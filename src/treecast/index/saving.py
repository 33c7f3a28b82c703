"""What a saved index holds in addition to its subscriptions: the settings that `Index.load` restores.

The file as a whole is native (native/base/snapshot.hpp); one of its sections is the JSON that is written and read
here. A file saved by an earlier version may lack settings, or have some that are no longer used.

A pickled or copied index is the bytes of such a file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from treecast import engines
from treecast.document import Limits
from treecast.errors import SnapshotError
from treecast.model import DeliveryLimits


@dataclass(frozen=True)
class SavedSettings:
    """The settings of an index that a file keeps."""

    engine: str
    namespaces: dict[str, str]
    limits: Limits
    entities: Any
    delivery_limits: DeliveryLimits

    def to_bytes(self) -> bytes:
        """As they are saved."""
        return json.dumps(asdict(self)).encode()


def read_settings(text: bytes) -> SavedSettings:
    """The settings in a file. Raises a SnapshotError where they cannot be read."""
    try:
        about = json.loads(text)
        return SavedSettings(
            engines.check(about["engine"]),
            dict(about["namespaces"]),
            Limits(**about["limits"]),
            about["entities"],
            DeliveryLimits(**about.get("delivery_limits", {})),  # files of 0.1 have none
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = "TC503 this saved index is damaged: its settings cannot be read"
        raise SnapshotError(message, code="TC503", hint="save it again, or restore it from a copy") from error


def to_saved_bytes(save: Callable[[Path], None]) -> bytes:
    """What `save` writes to a file, as bytes."""
    with tempfile.TemporaryDirectory(prefix="treecast-") as directory:
        path = Path(directory) / "index.tcx"
        save(path)
        return path.read_bytes()


def from_saved_bytes(kind: Any, saved: bytes, cache_bytes_max: int) -> Any:
    """The index that `to_saved_bytes` wrote. Its file is mapped, so it may go while the index is in use."""
    with tempfile.TemporaryDirectory(prefix="treecast-") as directory:
        path = Path(directory) / "index.tcx"
        path.write_bytes(saved)
        return kind.load(path, cache_bytes_max=cache_bytes_max)


def file_name(path: str | Path) -> bytes:
    """A path as native code takes it."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(f"a file name has no null character: {path!r}")
    return name
