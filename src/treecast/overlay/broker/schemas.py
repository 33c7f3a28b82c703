"""The DTDs of sources, compiled: documents of a source that has one are valid by it, or refused.

A DTD is compiled when its source is registered, so a wrong one is refused then; after a restart, with the first
document. Sources with the same DTD share what is compiled, and what was not used for longest is dropped first.
"""

from __future__ import annotations

from collections import OrderedDict

from treecast.errors import DocumentLimitError
from treecast.overlay.broker.settings import BrokerSettings
from treecast.workload.validator import Validator


class Schemas:
    """A bounded cache, by the text of the DTD."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._compiled: OrderedDict[str, Validator] = OrderedDict()
        self._transitions = 0

    def validator(self, text: str) -> Validator:
        """Of a DTD that is not empty. Raises DocumentError, DocumentLimitError."""
        known = self._compiled.get(text)
        if known is None:
            known = self.compile(text)
            self.keep(text, known)
        else:
            self._compiled.move_to_end(text)
        return known

    def compile(self, text: str) -> Validator:
        """Without keeping it: so it may be done in another thread. Raises as `validator` does."""
        settings = self._settings
        if len(text.encode("utf-8", "surrogatepass")) > settings.schema_bytes_max:
            message = f"the DTD has more than {settings.schema_bytes_max:,} bytes"
            raise DocumentLimitError(message, code="TC380", hint="the limit is the setting broker.schema_bytes_max")
        return Validator.from_text(text, "schema", settings.schema_transitions_max, settings.schema_chars_max)

    def keep(self, text: str, validator: Validator) -> None:
        if text in self._compiled:
            return
        self._compiled[text] = validator
        self._transitions += validator.transitions
        while self._transitions > self._settings.schemas_transitions_max and len(self._compiled) > 1:
            _, dropped = self._compiled.popitem(last=False)
            self._transitions -= dropped.transitions

    def check(self, validator: Validator, body: bytes) -> None:
        """Whether a document, which is well-formed, is valid. Raises DocumentError, DocumentLimitError."""
        if len(body) > self._settings.validated_bytes_max:
            raise DocumentLimitError(
                f"a document that is checked by a DTD has at most {self._settings.validated_bytes_max:,} bytes",
                code="TC383",
                hint="the limit is the setting broker.validated_bytes_max",
            )
        validator.check(body)
