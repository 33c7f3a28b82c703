"""A pipeline.toml -> Pipeline. What it may hold is the table KEYS below; docs/guide/run.md explains it.

Relative paths start at the file's directory. Every message names the file, the table and the key,
and a wrong name comes with the right one. All mistakes of a file are found at once.

Codes: TC730 a file that cannot be read, TC731 an unknown name, TC732 an invalid value, TC733 something
missing; TC734 an unknown placement.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from treecast.cli.sizes import FACTORS
from treecast.document import Limits
from treecast.errors import PipelineError
from treecast.inputs.subscriptions import FORMATS
from treecast.model import DeliveryLimits
from treecast.spark.job.pipeline import Pipeline, Sinks, Source, Subscriptions
from treecast.spark.stream.batches import is_elsewhere

T = TypeVar("T")
DELIVERY_LIMITS = tuple(asdict(DeliveryLimits()))


def read(path: str) -> Pipeline:
    """The pipeline that a file describes. Raises PipelineError, the first of its mistakes."""
    pipeline, mistakes = read_all(path)
    if mistakes:
        raise mistakes[0]
    assert pipeline is not None
    return pipeline


def read_all(path: str) -> tuple[Pipeline | None, list[PipelineError]]:
    """The pipeline that a file describes, without what is wrong in it, and all that is.

    None where it is no TOML, or does not say where documents and subscriptions are.
    """
    try:
        content = _content(path)
    except PipelineError as error:
        return None, [error]
    reader = _Reader(path)
    return reader.pipeline(content), reader.mistakes


def _content(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_bytes().decode()
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror or error}"
        raise PipelineError(message, code="TC730", hint="check the name and the permissions") from None
    except (UnicodeDecodeError, ValueError):
        raise PipelineError(f"{path}: not UTF-8", code="TC730", hint="save the file as UTF-8") from None
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PipelineError(f"{path}: not TOML: {error}", code="TC730", hint="see https://toml.io") from None


class _Reader:
    """Reads one file: knows its name for messages, and its directory for relative paths. Notes all mistakes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory = Path(path).parent
        self.mistakes: list[PipelineError] = []

    def pipeline(self, content: Mapping[str, Any]) -> Pipeline | None:
        """The pipeline of what is right; None where the paths are missing or wrong."""
        top = self._table("", content)
        tables = {name: self._table(name, content.get(name, {})) for name in KEYS if name and name != "spark"}
        for name in ("source", "subscriptions"):
            if "path" not in tables[name] and not self._is_given(content, name):
                what = f"[{name}] has no key path" if name in content else f"there is no table [{name}]"
                self.mistakes.append(self._error("", "", what, f'write [{name}] and below it path = "…"', code="TC733"))
        limits = tables["limits"]
        cache = {"cache_bytes_max": limits.pop("cache_bytes_max")} if "cache_bytes_max" in limits else {}
        payloads = {name: limits.pop(name) for name in DELIVERY_LIMITS if name in limits}
        source = self._make("source.", Source, tables["source"])
        subscriptions = self._make("subscriptions.", Subscriptions, tables["subscriptions"])
        sinks = self._make("sinks.", Sinks, {"output": self.place("results"), **tables["sinks"]})
        values = {
            "source": source,
            "subscriptions": subscriptions,
            "sinks": sinks or Sinks(self.place("results")),
            "limits": self._make("limits.", Limits, limits),
            "delivery_limits": self._make("limits.", DeliveryLimits, payloads) if payloads else None,
            "spark": self._settings(content.get("spark", {})),
            "name": Path(self._path).stem,
            **top,
            **cache,
        }
        has_paths = source is not None and subscriptions is not None
        # Without them the rest is looked at all the same.
        values["source"] = source or Source(("?",))
        values["subscriptions"] = subscriptions or Subscriptions(("?",))
        pipeline = self._make("", Pipeline, {name: value for name, value in values.items() if value is not None})
        return pipeline if has_paths else None

    def _is_given(self, content: Mapping[str, Any], name: str) -> bool:
        """Whether a table says path, even if what it says is wrong, or is no table; that is another mistake."""
        table = content.get(name, {})
        return not isinstance(table, Mapping) or "path" in table

    def _make(self, prefix: str, kind: Callable[..., T], values: dict[str, Any]) -> T | None:
        """A part of the pipeline. A value that it refuses is noted and left out; None where that cannot be."""
        values = dict(values)
        while True:
            try:
                return kind(**values)
            except PipelineError as error:  # TC732 key: problem; it does not know the file
                message = _first_line(error)
                self.mistakes.append(PipelineError(f"{self._path}: {message}", code=error.code, hint=error.hint))
                key = message.partition(":")[0].removeprefix(prefix)
                if values.pop(key, None) is None:
                    return None
            except ValueError as error:
                self.mistakes.append(self._error("limits", "", str(error), "see the table of limits in the guide"))
                return None
            except TypeError:  # without its path
                return None

    def place(self, path: str) -> str:
        return path if is_elsewhere(path) else str(self._directory / path)

    def _table(self, table: str, content: object) -> dict[str, Any]:
        """The values of one table, each checked and converted."""
        if not isinstance(content, Mapping):
            problem = f"expected a table, got {_kind(content)}"
            self.mistakes.append(self._error("", table, problem, f"write [{table}] on a line"))
            return {}
        known = KEYS[table]
        values: dict[str, Any] = {}
        for key, value in content.items():
            if not table and key in KEYS:
                continue
            if key not in known:
                self.mistakes.append(self._unknown(table, key))
                continue
            try:
                values[key] = known[key](self, value)
            except _WrongError as wrong:
                self.mistakes.append(self._error(table, key, wrong.problem, wrong.hint))
        return values

    def _settings(self, content: object, prefix: str = "spark") -> dict[str, str]:
        """Settings of Spark: dotted names in quotes, or as tables in tables, with or without the leading `spark.`."""
        if not isinstance(content, Mapping):
            problem = f"expected a table, got {_kind(content)}"
            self.mistakes.append(self._error("", "spark", problem, "write [spark] on a line"))
            return {}
        settings: dict[str, str] = {}
        for key, value in content.items():
            name = key if prefix == "spark" and key.startswith("spark.") else f"{prefix}.{key}"
            if isinstance(value, Mapping):
                settings |= self._settings(value, prefix if (prefix, key) == ("spark", "spark") else name)
            elif isinstance(value, bool):
                settings[name] = str(value).lower()
            elif isinstance(value, str | int | float):
                settings[name] = str(value)
            else:
                hint = "write a string, a number, true or false"
                self.mistakes.append(self._error("spark", key, f"{_kind(value)} is not a Spark setting", hint))
        return settings

    def _unknown(self, table: str, key: str) -> PipelineError:
        known = [*KEYS[table], *([] if table else [name for name in KEYS if name])]
        near = difflib.get_close_matches(key, known, 1, 0.5)
        elsewhere = [name or "the top of the file" for name, keys in KEYS.items() if key in keys and name != table]
        if near:
            hint = f"did you mean {near[0]}?"
        elif elsewhere:
            hint = f"it belongs to {elsewhere[0] if elsewhere[0].startswith('the') else f'[{elsewhere[0]}]'}"
        else:
            hint = f"the known ones are {', '.join(known)}"
        return self._error(table, key, "unknown key" if table else "unknown key or table", hint, "TC731")

    def _error(self, table: str, key: str, problem: str, hint: str, code: str = "TC732") -> PipelineError:
        place = " ".join(part for part in (f"[{table}]" if table else "", key) if part)
        return PipelineError(
            f"{self._path}: {place}: {problem}" if place else f"{self._path}: {problem}", code=code, hint=hint
        )


class _WrongError(Exception):
    """A value of the wrong kind; the reader adds the place."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem, self.hint = problem, hint


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    kinds = {str: "a string", int: "a number", float: "a number with a fraction", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or time")


def _first_line(error: PipelineError) -> str:
    return str(error).splitlines()[0].removeprefix(f"{error.code} ")


def _text(reader: _Reader, value: object) -> str:
    if not isinstance(value, str):
        raise _WrongError(f"expected a string, got {_kind(value)}", "put it in quotes")
    return value


def _flag(reader: _Reader, value: object) -> bool:
    if not isinstance(value, bool):
        raise _WrongError(f"expected true or false, got {_kind(value)}", "write true or false, without quotes")
    return value


def _number(reader: _Reader, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _WrongError(f"expected a number, got {_kind(value)}", "write a number, without quotes")
    return value


def _size(reader: _Reader, value: object) -> int:
    if isinstance(value, str) and value[:-1].isascii() and value[:-1].isdigit() and value[-1].upper() in FACTORS:
        return int(value[:-1]) * FACTORS[value[-1].upper()]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        shown = repr(value) if isinstance(value, str | int) else _kind(value)
        raise _WrongError(f"{shown} is not a size", 'write a number such as 4096 or a text such as "64M"')
    return value


def _place(reader: _Reader, value: object) -> str:
    if value == "":
        raise _WrongError("it is empty", "name a directory, or leave it out")
    return reader.place(_text(reader, value))


def _places(reader: _Reader, value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    texts = [one for one in values if isinstance(one, str)]
    if len(texts) < len(values):
        raise _WrongError(f"expected a string or a list of strings, got {_kind(value)}", "put each path in quotes")
    return tuple(reader.place(one) if one else "" for one in texts)


def _texts(reader: _Reader, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise _WrongError(f"expected a table of strings, got {_kind(value)}", 'write it as {name = "text"}')
    return value


def _names(reader: _Reader, value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(_text(reader, one) for one in values)


def _entities(reader: _Reader, value: object) -> str | dict[str, str]:
    return value if isinstance(value, str) else _texts(reader, value)


def _format(reader: _Reader, value: object) -> str:
    if value not in FORMATS:
        raise _WrongError(f"{_text(reader, value)!r} is not a format", f"write one of {', '.join(FORMATS)}")
    return str(value)


# Table -> key -> what makes a value of it. "" is the top of the file; [spark] holds whatever Spark knows.
KEYS: dict[str, dict[str, Callable[[_Reader, Any], Any]]] = {
    "": {"name": _text, "master": _text, "placement": _text, "shards": _number},
    "source": {
        "path": _places,
        "pattern": _text,
        "record": _names,
        "entities": _entities,
        "stream": _flag,
        "trigger": _text,
    },
    "subscriptions": {"path": _places, "format": _format, "namespaces": _texts},
    "sinks": {
        "output": _place,
        "matches": _place,
        "overwrite": _flag,
        "render": _flag,
        "by_subscription": _flag,
        "directories_max": _number,
        "report": _flag,
    },
    "limits": dict.fromkeys(("cache_bytes_max", *vars(Limits()), *DELIVERY_LIMITS), _size),
    "spark": {},
}
_KEY_WORDS = {key: f"{key} below [{table}]" for table, keys in KEYS.items() if table for key in keys}
WORDS = _KEY_WORDS | {
    "record_bytes_max": _KEY_WORDS["document_bytes_max"],
    "namespace": "namespaces.P=URI below [subscriptions]",
    "entities": 'entities = "html" below [source]',
    "subscriptions_format": _KEY_WORDS["format"],
}
"""What the reader of a message can write in the file, by the names of settings in Python (treecast.cli.wording)."""
