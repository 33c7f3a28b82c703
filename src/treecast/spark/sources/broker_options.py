"""The options of a source that reads a broker, checked: a wrong one is reported in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from treecast.spark.sources.option_errors import unknown_option, wrong_option

EARLIEST, LATEST = "earliest", "latest"
FAIL, REPORT = "fail", "report"


@dataclass(frozen=True)
class BrokerOptions:
    """What `broker_documents` takes, and `spark.readStream.format("treecast")` with a `url`."""

    url: str
    """Of the service: http://host:port, or https."""
    token: str = ""
    starting: str = EARLIEST
    """Where a new query begins: with the first document that is kept, with the next one that is published ("latest"),
    or with the document that has this number."""
    max_documents_per_batch: int = 10_000
    partition_documents: int = 1_000
    """Documents of one task."""
    on_gone: str = FAIL
    """What happens if documents are no longer kept: the query fails, or a row with an error reports them."""
    timeout_seconds: int = 60
    """A service that is away or busy is asked again for so long."""

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> BrokerOptions:
        """From the strings that Spark hands over. Raises PipelineError (TC711)."""
        kinds = {field.name: field.type for field in fields(cls)}
        values: dict[str, Any] = {}
        for key, text in texts.items():
            name = key.lower()
            if name not in kinds:
                raise unknown_option(key, kinds, "a broker")
            values[name] = _number(name, text) if kinds[name] == "int" else text
        options = cls(**values)
        options.check()
        return options

    def check(self) -> None:
        """Raise PipelineError (TC711) if a value is wrong."""
        try:
            parts = urlsplit(self.url)
            is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 80) > 0
        except ValueError:
            is_right = False
        if not is_right or parts.username is not None or parts.query or parts.fragment:
            raise wrong_option("url", self.url.rpartition("@")[2], "it is http://host:port, or https://host:port")
        if self.starting not in (EARLIEST, LATEST) and not _is_number(self.starting):
            raise wrong_option("starting", self.starting, "it is earliest, latest, or the number of a document")
        if self.on_gone not in (FAIL, REPORT):
            raise wrong_option("on_gone", self.on_gone, "it is fail or report")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 1 <= int(text[:19]) <= 1 << 60


def _number(name: str, text: str) -> int:
    if not _is_number(text):
        raise wrong_option(name, text, "it must be a number from 1 on")
    return int(text)
