"""The settings of `treecast up`: one table, from which its options, its file and its environment follow.

A setting has a name, such as `listen` or `door.header_ms`. It may be given as an option (`--listen`, and
`--set door.header_ms=5s` for those in sections), in the environment (`TREECAST_UP_DOOR_HEADER_MS=5s`), or in a file
(`[door]`, `header_ms = "5s"`). Options win over the environment, that wins over the file, and that over the defaults.

Everything is read before anything is refused, so all mistakes are told at once, each in one sentence.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from treecast.cli.sizes import FACTORS
from treecast.errors import PipelineError

PREFIX = "TREECAST_UP_"
CONFIG = f"{PREFIX}CONFIG"
DECIDED_BY_SERVICE = "announces"
"""A field that is no setting."""
MISTAKES_MAX = 50
NUMBER_MAX = 1 << 53
LOG_LEVELS = ("debug", "info", "warning", "error")
POLICIES = ("load", "content")
DURATIONS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZES = {"": 1, **FACTORS, "T": 1 << 40}


class Setting(NamedTuple):
    """`kind` is one of text, texts, path, address, choice, switch, count, duration (in ms) and size (in bytes)."""

    section: str
    name: str
    kind: str
    default: Any
    help: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    is_optional: bool = False
    """Empty is none."""
    example: str = "1000"
    """Of a count."""

    @property
    def full_name(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def variable(self) -> str:
        """In the environment."""
        return PREFIX + self.full_name.replace(".", "_").upper()


def _file(name: str, help: str) -> Setting:
    return Setting("", name, "path", "", help, "FILE", is_optional=True)


TOP = (
    Setting("", "data", "path", None, "where everything is kept", "DIR"),
    Setting("", "listen", "address", "127.0.0.1:8080", "address for HTTP; default 127.0.0.1:8080", "HOST:PORT"),
    _file("certificate", "of HTTP, and of peers (PEM); default no TLS"),
    _file("key", "of the certificate, unless it is in its file"),
    _file("firewall", "rules by which documents are sent on (TOML)"),
    Setting("", "open", "switch", False, "let strangers in without tokens"),
    Setting("", "demo", "switch", False, "publish made-up news; --data may be left out"),
    Setting(
        "", "peer_listen", "address", "", "address for the Python client; default none", "HOST:PORT", is_optional=True
    ),
    Setting(
        "",
        "selective",
        "address",
        "",
        "for brokers of selective publishing; default none",
        "HOST:PORT",
        is_optional=True,
    ),
    _file("peer_ca", "CA of Python clients: they need certificates"),
    Setting("", "brokers", "count", 1, "be a network of so many, in processes; default 1", "N", example="3"),
    Setting("", "replicas", "count", 1, "disks of a network that have everything; default 1", "N", example="2"),
    Setting("", "policy", "choice", "load", "how a network picks hosts: load or content", "POLICY", POLICIES),
    Setting("", "backbone", "text", "", "NATS servers: be one of several workers", "URL[,URL]", is_optional=True),
    Setting("", "fleet", "text", "main", "which fleet of workers; default main", "NAME"),
    Setting("", "name", "text", "broker", "of the broker, in messages; default broker", "NAME"),
    Setting("", "log", "choice", "json", "json or console; default json", "FORMAT", ("json", "console")),
    Setting("", "log_level", "choice", "info", "least level; default info", "LEVEL", LOG_LEVELS),
)


def sections() -> dict[str, Any]:
    """The structs of settings, each with its defaults, by the names of their sections. Needs what a service needs."""
    from treecast.overlay.broker import BrokerSettings
    from treecast.serve.access.settings import AccessSettings
    from treecast.serve.doors.settings import DoorSettings
    from treecast.serve.firewall.settings import FirewallSettings
    from treecast.serve.fleet.settings import FleetSettings
    from treecast.serve.settings import RuntimeSettings

    return with_inner(
        {
            "door": DoorSettings(),
            "broker": BrokerSettings(),
            "access": AccessSettings(),
            "dispatch": FirewallSettings(),
            "peer": RuntimeSettings(),
            "worker": FleetSettings(),
        }
    )


def with_inner(structs: Mapping[str, Any]) -> dict[str, Any]:
    """A struct within a struct is a section of its own, called after its field."""
    sections: dict[str, Any] = {}
    for section, defaults in structs.items():
        sections[section] = defaults
        fields = {name: getattr(defaults, name) for name in defaults.__struct_fields__}
        sections |= with_inner({name: value for name, value in fields.items() if hasattr(value, "__struct_fields__")})
    return sections


def table(structs: Mapping[str, Any] | None = None) -> dict[str, Setting]:
    """All settings, by their full names."""
    settings = list(TOP)
    for section, defaults in (sections() if structs is None else structs).items():
        for name in defaults.__struct_fields__:
            default = getattr(defaults, name)
            if name != DECIDED_BY_SERVICE and not hasattr(default, "__struct_fields__"):
                kind = _kind_of(name, default)
                settings.append(Setting(section, name, kind, default, is_optional=kind == "text"))
    return {setting.full_name: setting for setting in settings}


def build(effective: Mapping[str, Effective], structs: Mapping[str, Any], section: str) -> Any:
    """The struct of a section, with the effective values."""
    values: dict[str, Any] = {}
    for name in structs[section].__struct_fields__:
        if name in structs and hasattr(getattr(structs[section], name), "__struct_fields__"):
            values[name] = build(effective, structs, name)
        elif f"{section}.{name}" in effective:
            values[name] = effective[f"{section}.{name}"].value
    return type(structs[section])(**values)


def _kind_of(name: str, default: Any) -> str:
    if isinstance(default, list | tuple):
        return "texts"
    if isinstance(default, str):
        return "text"
    if isinstance(default, bool):
        return "switch"
    if re.search(r"_ms(_|$)", name):
        return "duration"
    return "size" if "bytes" in name else "count"


class Mistake(NamedTuple):
    """Where something was said, and what is wrong with it."""

    place: str
    problem: str


@dataclass(frozen=True)
class Effective:
    """A value, and who gave it."""

    setting: Setting
    value: Any
    origin: str


class SettingsError(PipelineError):
    """All mistakes, one a line."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        lines = [f"\n  {mistake.place}: {mistake.problem}" for mistake in mistakes[:MISTAKES_MAX]]
        count = f"{len(mistakes)} settings are wrong" if len(mistakes) > 1 else "a setting is wrong"
        super().__init__(count + "".join(lines), code="TC760")


def resolve(
    options: Mapping[str, Any], sets: Sequence[str], unknown: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Effective]:
    """The effective settings, by full name. Raises SettingsError.

    `options` are those of the command line by name, None if not given; `sets` the texts of `--set`; `unknown` what was
    not understood.
    """
    return _Resolver(options).resolve(sets, unknown, environment)


class _Resolver:
    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._settings = table()
        self._mistakes: list[Mistake] = []
        self._found: dict[str, Effective] = {}

    def resolve(
        self, sets: Sequence[str], unknown: Sequence[str], environment: Mapping[str, str]
    ) -> dict[str, Effective]:
        config = self._options.get("config") or environment.get(CONFIG, "")
        if config:
            self._read_file(config)
        self._read_environment(environment)
        self._read_options(sets, unknown)
        for setting in self._settings.values():
            if setting.full_name not in self._found:
                if setting.default is None and not (self._is_given("backbone") or self._is_given("demo")):
                    flag = f"--{setting.name}"
                    self._mistakes.append(Mistake(flag, f"it is missing; write {flag} {setting.metavar}"))
                self._found[setting.full_name] = Effective(setting, _default(setting), "default")
        if self._mistakes:
            raise SettingsError(self._mistakes)
        return {name: self._found[name] for name in self._settings}

    def _is_given(self, name: str) -> bool:
        return name in self._found and bool(self._found[name].value)

    def _take(self, setting: Setting, source: Any, place: str, origin: str, directory: Path | None = None) -> None:
        """The last one that is taken wins."""
        try:
            value = convert(setting, source)
        except ValueError as error:
            self._mistakes.append(Mistake(place, str(error)))
            value = _default(setting)
        if setting.kind == "path" and value and directory is not None:
            value = str(directory / value)
        self._found[setting.full_name] = Effective(setting, value, origin)

    # --- options ------------------------------------------------------------------------------------------------------

    def _read_options(self, sets: Sequence[str], unknown: Sequence[str]) -> None:
        for setting in TOP:
            given = self._options.get(setting.name)
            if given is not None and given is not False:
                flag = f"--{setting.name.replace('_', '-')}"
                self._take(setting, given, flag, flag)
        for text in sets:
            name, equals, value = text.partition("=")
            known = self._settings.get(name.strip())
            if not equals:
                self._mistakes.append(Mistake(f"--set {text}", "write --set NAME=VALUE"))
            elif known is None:
                self._mistakes.append(Mistake(f"--set {text}", _unknown("setting", name.strip(), self._settings)))
            else:
                self._take(known, value.strip(), f"--set {known.full_name}", "--set")
        flags = [f"--{name.replace('_', '-')}" for name in ("config", "check", "set", *(one.name for one in TOP))]
        for text in unknown:
            if text.startswith("-"):
                self._mistakes.append(Mistake(text, _unknown("option", text.partition("=")[0], flags)))
            elif not unknown[0].startswith("-"):
                self._mistakes.append(Mistake(text, "it belongs to no option"))

    # --- the environment ----------------------------------------------------------------------------------------------

    def _read_environment(self, environment: Mapping[str, str]) -> None:
        variables = {setting.variable: setting for setting in self._settings.values()}
        for name in sorted(environment):
            if not name.startswith(PREFIX) or name == CONFIG:
                continue
            if name in variables:
                self._take(variables[name], environment[name], name, name)
            else:
                self._mistakes.append(Mistake(name, _unknown("setting", name, variables)))

    # --- the file -----------------------------------------------------------------------------------------------------

    def _read_file(self, path: str) -> None:
        try:
            content = tomllib.loads(Path(path).read_bytes().decode())
        except OSError as error:
            self._mistakes.append(Mistake(path, f"it cannot be read: {error.strerror or error}"))
            return
        except (UnicodeDecodeError, ValueError, RecursionError) as error:
            self._mistakes.append(Mistake(path, f"it is not TOML: {error}"))
            return
        directory = Path(path).parent
        for place, full_name, value in _entries(path, content):
            setting = self._settings.get(full_name)
            if setting is not None:
                self._take(setting, value, place, path, directory)
            else:
                self._mistakes.append(Mistake(place, _unknown("setting", full_name, self._settings)))


def _entries(path: str, content: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Where it stands, the full name, and the value."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            for name, inner in value.items():
                yield f"{path}: [{key}] {name}", f"{key}.{name}", inner
        else:
            yield f"{path}: {key}", key, value


def _unknown(what: str, name: str, known: Iterator[str] | Mapping[str, Any] | Sequence[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1, 0.6)
    if not near and "." not in name:  # of a section that was left out
        near = [one for one in known if one.endswith(f".{name}")]
    hint = f"did you mean {near[0]}?" if near else "treecast up --check lists those that there are"
    return f"there is no such {what}; {hint}"


# --- values -----------------------------------------------------------------------------------------------------------


def convert(setting: Setting, source: Any) -> Any:
    """What was given, as text or as TOML has it, as the value that it stands for. Raises ValueError."""
    if setting.kind == "switch":
        return _switch(source)
    if setting.kind in ("count", "duration", "size"):
        return _number(setting, source)
    if setting.kind == "texts":
        return _texts(source)
    if not isinstance(source, str):
        raise ValueError(f"{_shown(source)} is no text; put it in quotes")
    if not source:
        if setting.is_optional:
            return None if setting.kind == "address" else ""
        raise ValueError("it is empty")
    if setting.kind == "address":
        from treecast.serve.address import parse_address

        return parse_address(source)
    if setting.kind == "choice" and source not in setting.choices:
        near = difflib.get_close_matches(source, setting.choices, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"write one of {', '.join(setting.choices)}"
        raise ValueError(f"{source!r} is not known; {hint}")
    return source


def _default(setting: Setting) -> Any:
    if setting.kind == "address":
        return convert(setting, setting.default)
    return setting.default


def _switch(source: Any) -> bool:
    values = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(source, bool):
        return source
    if isinstance(source, str) and source.lower() in values:
        return values[source.lower()]
    raise ValueError(f"{_shown(source)} is neither true nor false")


def _texts(source: Any) -> list[str]:
    """A list, also as TOML writes it, or texts with commas between them."""
    if isinstance(source, str) and source.lstrip().startswith("["):
        try:
            source = tomllib.loads(f"list = {source}")["list"]
        except ValueError:
            raise ValueError(f'{_shown(source)} is no list of texts; write ["one", "two"]') from None
    if isinstance(source, str):
        source = [part.strip() for part in source.split(",") if part.strip()]
    if not isinstance(source, list) or not all(isinstance(one, str) for one in source):
        raise ValueError(f'{_shown(source)} is no list of texts; write ["one", "two"]')
    return source


def _number(setting: Setting, source: Any) -> int:
    kind = setting.kind
    units = {"count": {"": 1}, "duration": {"": 1, **DURATIONS}, "size": SIZES}[kind]
    examples = {"count": setting.example, "duration": "500ms, 10s, 5m, 2h or 7d", "size": "4096, 64K, 16M or 2G"}
    value: int | None = None
    if isinstance(source, int) and not isinstance(source, bool):
        value = source
    elif isinstance(source, str):
        parts = re.fullmatch(r"([0-9][0-9_]{0,18})\s*([A-Za-z]*?)(iB|B)?", source.strip(), re.ASCII)
        if parts and parts[2] in units and (kind == "size" or not parts[3]):
            value = int(parts[1].replace("_", "")) * units[parts[2]]
    if value is None:
        raise ValueError(f"{_shown(source)} is no {kind}; write {examples[kind]}")
    if not 1 <= value <= NUMBER_MAX:
        raise ValueError(f"{_shown(source)} is out of range; it is at least 1")
    return value


def _shown(source: Any) -> str:
    return repr(source)[:100]


def format_value(setting: Setting, value: Any) -> str:
    """As it may be written in a file.

    >>> format_value(Setting("door", "header_ms", "duration", 1), 90_000), format_value(TOP[1], ("::1", 80))
    ('"90s"', '"[::1]:80"')
    """
    if setting.kind == "switch":
        return str(value).lower()
    if setting.kind == "count":
        return str(value)
    if setting.kind in ("duration", "size"):
        units = DURATIONS if setting.kind == "duration" else SIZES
        unit, factor = [pair for pair in units.items() if value % pair[1] == 0][-1]
        return f'"{value // factor}{unit}"' if unit not in ("", "ms") else str(value)
    if setting.kind == "address":
        from treecast.serve.address import format_address

        return f'"{format_address(*value)}"' if value else '""'
    if setting.kind == "texts":
        return f"[{', '.join(map(_quote, value))}]"
    return _quote(value or "")


def _quote(text: str) -> str:
    """As TOML writes it."""
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in text) + '"'


def format_settings(effective: Mapping[str, Effective]) -> str:
    """A file with these settings; a comment says who gave each that is not a default."""
    lines: list[str] = []
    section = ""
    for one in effective.values():
        if one.setting.section != section:
            section = one.setting.section
            lines += ["", f"[{section}]"]
        text = f"{one.setting.name} = {format_value(one.setting, one.value)}"
        lines.append(text if one.origin == "default" else f"{text:<39} # {one.origin}")
    return "\n".join(lines) + "\n"
