"""URLs of topics and of the hub, and the headers that lead from one to the other (section 4, discovery).

>>> topic_url("https://news.example", "sport news")
'https://news.example/v1/topics/sport%20news'
>>> topic_of("https://news.example/v1/topics/sport%20news", "https://news.example")
'sport news'
>>> topic_of("https://other.example/v1/topics/sport", "https://news.example") is None
True
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from treecast.serve.doors.calls import Call
from treecast.serve.doors.problems import DoorError

HUB_PATH = "/v1/hub"
TOPICS_PATH = "/v1/topics/"
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")


def base_url(call: Call, public_url: str) -> str:
    """Where whoever sent this request reaches the service. Raises DoorError TC434."""
    if public_url:
        return public_url.rstrip("/")
    host = call.header(b"host")
    if not _HOST.fullmatch(host):
        raise DoorError("the header host cannot be used", code="TC434")
    return f"{call.scope.get('scheme', 'http')}://{host}"


def topic_url(base: str, topic: str) -> str:
    return f"{base}{TOPICS_PATH}{quote(topic, safe='')}"


def topic_of(url: str, base: str) -> str | None:
    """The id of a topic of this service; None if the URL is not one."""
    prefix = f"{base}{TOPICS_PATH}"
    if not url.startswith(prefix) or "?" in url or "#" in url:
        return None
    try:
        return unquote(url.removeprefix(prefix), errors="strict") or None
    except UnicodeDecodeError:
        return None


def link_header(topic: str) -> str:
    """For a topic by its URL; the hub is at the same place."""
    base = topic.partition(TOPICS_PATH)[0]
    return f'<{base}{HUB_PATH}>; rel="hub", <{topic}>; rel="self"'
