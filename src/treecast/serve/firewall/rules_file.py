"""The operator's rules: a TOML file, read as a whole, with all mistakes at once.

Code: TC761 rules that cannot be used. `docs/guide/firewall.md` explains each name.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from treecast.errors import PipelineError
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.routes import Router
from treecast.serve.firewall.settings import FirewallSettings

MISTAKES_MAX = 50
NAME_CHARS_MAX = 200
FORBIDDEN_HEADERS = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
    *("transfer-encoding", "upgrade", "host", "content-length", "content-encoding", "accept-encoding", "expect"),
    *("authorization", "cookie", "forwarded"),
}
"""They belong to one connection, to the client's own secrets, or say what only we know."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_KIND = TypeVar("_KIND")


class _Form(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class BackendForm(_Form, frozen=True):
    """`[[backend]]`"""

    name: str
    url: str
    health: str = ""
    answer_ms: int = 0
    concurrency_max: int = 0


class RuleForm(_Form, frozen=True):
    """`[[rule]]`"""

    name: str
    query: str
    backends: list[str]
    namespaces: dict[str, str] = {}
    sources: list[str] = []
    policy: Literal["all", "one", "first"] = "one"
    balance: Literal["least", "turn"] = "least"
    priority: int = 0
    then: Literal["stop", "continue"] = "stop"
    retry_sent: bool = False


class PathForm(_Form, frozen=True):
    """`[[path]]`"""

    path: str
    source: str = ""


class RulesForm(_Form, frozen=True):
    """The file."""

    unwanted: Literal["refuse", "accept"] = "refuse"
    store: bool = False
    source_required: bool = False
    pass_headers: list[str] = []
    ca: str = ""
    backend: list[BackendForm] = []
    rule: list[RuleForm] = []
    path: list[PathForm] = []


class RulesError(PipelineError):
    """All mistakes, one a line."""

    def __init__(self, path: str, mistakes: list[str]) -> None:
        count = f"{len(mistakes)} mistakes" if len(mistakes) > 1 else "a mistake"
        lines = "".join(f"\n  {mistake}" for mistake in mistakes[:MISTAKES_MAX])
        super().__init__(f"{path}: {count} in the rules of the firewall{lines}", code="TC761")
        self.status = 422


def read_rules(path: str, settings: FirewallSettings) -> RulesForm:
    """Raises RulesError."""
    name = Path(path).name
    try:
        with Path(path).open("rb") as file:
            data = file.read(settings.rules_bytes_max + 1)
    except OSError as error:
        raise RulesError(name, [f"the file cannot be read: {error.strerror or error}"]) from None
    if len(data) > settings.rules_bytes_max:
        raise RulesError(name, [f"the file has more than {settings.rules_bytes_max:,} bytes"])
    try:
        content = tomllib.loads(data.decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise RulesError(name, [f"it is not TOML: {error}"]) from None
    mistakes: list[str] = []
    form = _convert(content, mistakes)
    if form is not None:
        _check(form, settings, mistakes)
    if mistakes or form is None:
        raise RulesError(name, mistakes)
    return msgspec.structs.replace(form, ca=str(Path(path).parent / form.ca) if form.ca else "")


def _convert(content: dict[str, Any], mistakes: list[str]) -> RulesForm | None:
    """Part by part, so that each may be wrong."""
    parts: dict[str, list[Any]] = {}
    for kind, form in (("backend", BackendForm), ("rule", RuleForm), ("path", PathForm)):
        tables = content.pop(kind, [])
        if not isinstance(tables, list):
            mistakes.append(f"{kind}: write [[{kind}]]")
            tables = []
        parts[kind] = [_part(one, form, f"{kind} {number}", mistakes) for number, one in enumerate(tables, 1)]
    whole = _part(content, RulesForm, "the file", mistakes)
    if whole is None or any(one is None for part in parts.values() for one in part):
        return None
    return msgspec.structs.replace(whole, **parts)


def _part(table: Any, kind: type[_KIND], place: str, mistakes: list[str]) -> _KIND | None:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        name_text = f" ({table['name']!r})" if isinstance(table, dict) and isinstance(table.get("name"), str) else ""
        mistakes.append(f"{place}{name_text[:100]}: {error}")
        return None


# --- what fits together -----------------------------------------------------------------------------------------------


def _check(form: RulesForm, settings: FirewallSettings, mistakes: list[str]) -> None:
    for kind, part, most in (
        ("rule", form.rule, settings.rules_max),
        ("backend", form.backend, settings.backends_max),
        ("path", form.path, settings.paths_max),
    ):
        if len(part) > most:
            mistakes.append(f"{kind}: there are {len(part)}, and at most {most}")
    for kind, names in (
        ("backend", [one.name for one in form.backend]),
        ("rule", [one.name for one in form.rule]),
        ("path", [one.path for one in form.path]),
    ):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        mistakes += [f"{kind} {name[:100]!r}: there are two of this name" for name in twice]
        mistakes += [
            f"{kind} {name[:100]!r}: a name has 1-{NAME_CHARS_MAX} characters, and no control characters"
            for name in names
            if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable()
        ]
    for header in form.pass_headers:
        if not _HEADER.fullmatch(header) or header.lower() in FORBIDDEN_HEADERS or header.lower()[:9] == "treecast-":
            mistakes.append(f"pass_headers: {header[:100]!r} is never passed on")
    for backend in form.backend:
        _check_backend(backend, mistakes)
    backend_names = {backend.name for backend in form.backend}
    for rule in form.rule:
        _check_rule(rule, backend_names, mistakes)
    for path in form.path:
        _check_path(path.path, mistakes)


def _check_backend(backend: BackendForm, mistakes: list[str]) -> None:
    place = f"backend {backend.name[:100]!r}"
    try:
        url = urlsplit(backend.url)
        is_good = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and "@" not in url.netloc
    except ValueError:
        is_good = False
    if not is_good or url.fragment or not backend.url.isprintable() or " " in backend.url:
        mistakes.append(f"{place}: url {backend.url[:200]!r} is no URL such as http://10.0.0.5:8080/orders")
    if backend.health and not re.fullmatch(r"/[!-~]*", backend.health):
        mistakes.append(f"{place}: health {backend.health[:200]!r} is no path such as /healthz")
    if backend.answer_ms < 0 or backend.concurrency_max < 0:
        mistakes.append(f"{place}: answer_ms and concurrency_max are not negative")


def _check_rule(rule: RuleForm, backend_names: set[str], mistakes: list[str]) -> None:
    place = f"rule {rule.name[:100]!r}"
    if not rule.backends:
        mistakes.append(f"{place}: it names no back end")
    mistakes += [f"{place}: there is no back end {name[:100]!r}" for name in rule.backends if name not in backend_names]
    if len(set(rule.backends)) < len(rule.backends):
        mistakes.append(f"{place}: it names a back end twice")
    if rule.policy == "all" and rule.retry_sent:
        mistakes.append(f"{place}: retry_sent is for the policies one and first")


def _check_path(path: str, mistakes: list[str]) -> None:
    plain = path.removesuffix("*")
    if not re.fullmatch(r"/[!-)+-~]+", plain) or "?" in plain or "#" in plain or (plain != path and plain[-1] != "/"):
        mistakes.append(f"path {path[:100]!r}: write a path such as /soap, or /soap/* for all below it")
        return
    try:
        Router().find("POST", plain)
    except DoorError as error:
        if error.code == "TC430" and not plain.startswith(("/v1/", "/console/")):
            return
    mistakes.append(f"path {path[:100]!r}: this is a page of the service")
