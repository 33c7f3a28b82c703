"""The options of the data source, checked: a wrong one is reported in one sentence, before anything is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from treecast.document import EntityTexts, Limits
from treecast.errors import PipelineError
from treecast.inputs.document_files import ReadSettings
from treecast.inputs.inflate import RATIO_MAX
from treecast.inputs.listing import EVERY_FILE, local_path
from treecast.inputs.locations import LOCAL, Storage, is_remote
from treecast.inputs.records import RECORD_BYTES_MAX, Rule
from treecast.spark.sources.option_errors import unknown_option, wrong_option


@dataclass(frozen=True)
class Options:
    """What `documents` and `spark.read.format("treecast")` take; sizes are in bytes."""

    paths: tuple[str, ...]
    record: tuple[str, ...] | None = None
    entities: EntityTexts = None
    pattern: str = EVERY_FILE
    partition_bytes: int = 32 << 20
    document_bytes_max: int = Limits.document_bytes_max
    record_bytes_max: int = RECORD_BYTES_MAX
    ratio_max: int = RATIO_MAX
    max_files_per_batch: int = 10_000
    log: str | None = None
    storage_secrets: Storage = LOCAL
    """How files elsewhere are reached. Spark does not print options whose names say that they are secret."""
    parts: bool = False
    """Rows are what is to be read, one for each task, and not the documents."""

    def rule(self) -> Rule | None:
        """How files are split; None where each is one document."""
        return None if self.record is None else Rule(self.record, self.entities, self.record_bytes_max)

    def read_settings(self) -> ReadSettings:
        """How the files are read."""
        return ReadSettings(self.pattern, self.rule(), self.document_bytes_max, self.ratio_max, self.storage_secrets)

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Options:
        """From the strings that Spark hands over. Raises PipelineError (TC711)."""
        names = {field.name for field in fields(cls)} | {"path"}
        values: dict[str, Any] = {}
        for key, text in texts.items():
            name = key.lower()
            if name not in names:
                raise unknown_option(key, names)
            values[name] = text
        values["paths"] = _paths(values.pop("path", None), values.get("paths"))
        for name, text in values.items():
            if name in _PARSERS:
                try:
                    values[name] = _PARSERS[name](text)
                except (ValueError, TypeError) as error:
                    raise wrong_option(name, text, error) from None
        options = cls(**values)
        options.check()
        return options

    def check(self) -> None:
        """Raise PipelineError (TC711) where the options do not go together."""
        try:
            rule = self.rule()
        except (ValueError, TypeError) as error:
            raise PipelineError(str(error), code="TC711") from None
        if rule is None and self.entities is not None:
            raise PipelineError(
                "entities are replaced in records only, and no record is given",
                code="TC711",
                hint="give entities to match, or to the Index",
            )


def to_strings(values: Mapping[str, Any]) -> dict[str, str]:
    """The form in which Spark takes options; what is None is left out."""
    return {name: _to_string(value) for name, value in values.items() if value is not None}


def _to_string(value: Any) -> str:
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return json.dumps([_to_string(item) for item in value])


def _paths(path: str | None, paths: str | None) -> tuple[str, ...]:
    names: Sequence[str] = []
    if paths is not None:
        names = _strings(paths) if paths.startswith("[") else [paths]
    elif path is not None:
        # Several in one string, unless there is a file of that name.
        several = "," in path and (is_remote(path) or not Path(local_path(path)).exists())
        names = [part.strip() for part in path.split(",")] if several else [path]
    if not names or not all(names):
        raise PipelineError("no path is given", code="TC711", hint='.load("directory/*.xml")')
    return tuple(names)


def _strings(text: str) -> list[str]:
    values = json.loads(text)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("a list of strings is expected")
    return values


def _record(text: str) -> tuple[str, ...]:
    names = _strings(text) if text.startswith("[") else [name.strip() for name in text.split(",")]
    return tuple(names)


def _entities(text: str) -> EntityTexts:
    if not text.startswith("{"):
        if text != "html":
            raise ValueError('it must be "html", or a mapping in JSON')
        return "html"
    values: dict[str, str] = json.loads(text)
    return values


def _size(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1 << 40:
        raise ValueError("it must be a number from 1 on")
    return number


def _document_size(text: str) -> int:
    if _size(text) > 1 << 30:
        raise ValueError(f"Spark's rows hold no more than {1 << 30}")
    return int(text)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "record": _record,
    "entities": _entities,
    "partition_bytes": _size,
    "document_bytes_max": _document_size,
    "record_bytes_max": _document_size,
    "ratio_max": _size,
    "max_files_per_batch": _size,
    "parts": lambda text: text == "True",
    "storage_secrets": lambda text: Storage.of(json.loads(text)),
}
