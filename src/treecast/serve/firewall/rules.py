"""Rules that are in force: which of them a document meets, and which back ends they name."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from treecast.errors import TreecastError
from treecast.index import Index
from treecast.serve.firewall.backend import Backend
from treecast.serve.firewall.rules_file import RuleForm, RulesError, RulesForm
from treecast.serve.firewall.settings import FirewallSettings


class Rule:
    """One rule, and how often it applied."""

    def __init__(self, form: RuleForm, backends: list[Backend]) -> None:
        self.form = form
        self.name = form.name
        self.backends = backends
        self.documents = self.failed = 0
        self.turns = 0
        """How often a back end was chosen."""


class Rules:
    """Highest priority first; among equals, as they stand in the file."""

    def __init__(
        self, form: RulesForm, settings: FirewallSettings, path: str, before: Mapping[str, Backend] | None = None
    ) -> None:
        """Back ends of `before` that have not changed stay as they are. Raises RulesError."""
        self.form = form
        mistakes: list[str] = []
        self.context = _context(form.ca, mistakes)
        self._index = Index()
        for rule in form.rule:
            try:
                self._index.add(rule.name, rule.query, namespaces=rule.namespaces)
            except TreecastError as error:
                lines = str(error).splitlines()
                hint = f"; {error.hint}" if error.hint else ""
                mistakes.append(f"rule {rule.name[:100]!r}: {lines[0]}{hint}")
        if mistakes:
            raise RulesError(path, mistakes)
        self.backends: dict[str, Backend] = {}
        for backend in form.backend:
            old_backend = (before or {}).get(backend.name)
            self.backends[backend.name] = (
                old_backend if old_backend is not None and old_backend.form == backend else Backend(backend, settings)
            )
        forms = sorted(form.rule, key=lambda rule: -rule.priority)
        self.rules = [Rule(rule, [self.backends[name] for name in rule.backends]) for rule in forms]
        self._exact = {one.path: one.source for one in form.path if not one.path.endswith("*")}
        prefixes = [one for one in form.path if one.path.endswith("*")]
        self._prefixes = sorted(((one.path[:-1], one.source) for one in prefixes), key=lambda pair: -len(pair[0]))

    def matching(self, body: bytes) -> frozenset[str]:
        """The names of the rules that a document meets. Raises DocumentError: not well-formed, or not decided."""
        # A rule that takes too long to decide (TC340) refuses the document, too: it must not be got around.
        part = self._index.match_part([body], report=False)
        return frozenset(part.matches.to_pylist()[0])

    def applying(self, names: frozenset[str], source: str) -> list[Rule]:
        """Of those, the ones that apply to a document of this source: down to the first that stops."""
        applying_rules: list[Rule] = []
        for rule in self.rules if names else ():
            if rule.name in names and (not rule.form.sources or source in rule.form.sources):
                applying_rules.append(rule)
                if rule.form.then == "stop":
                    break
        return applying_rules

    def source_of(self, path: str) -> str | None:
        """The source of documents that are posted to a path that the rules claim; empty if it names none."""
        source = self._exact.get(path)
        if source is None:
            source = next((source for prefix, source in self._prefixes if path.startswith(prefix)), None)
        return source


def _context(ca: str, mistakes: list[str]) -> ssl.SSLContext:
    """With the operator's own CA, or those of the system."""
    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        mistakes.append(f"ca: {ca[:200]!r} cannot be used: {error}")
        return ssl.create_default_context()
