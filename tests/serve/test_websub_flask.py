"""Flask-WebSub, which nobody here wrote, as a subscriber of the hub; feedparser reads what it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import feedparser
import pytest
from flask import Flask
from flask_websub.subscriber import (
    SQLite3SubscriberStorage,
    SQLite3TempSubscriberStorage,
    Subscriber,
    discover,
)
from support.hook_receiver import HookReceiver, Received, Response
from support.served_http import Service, eventually
from werkzeug.serving import make_server

pytestmark = pytest.mark.house

ATOM = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><id>urn:news</id><updated>2026-11-16T12:00:00Z</updated>
<entry><title>{title}</title><id>urn:news:1</id><updated>2026-11-16T12:00:00Z</updated></entry></feed>
"""
RSS = """<?xml version="1.0"?>
<rss version="2.0"><channel><title>News</title><link>http://news.example/</link><description>All of it</description>
<item><title>{title}</title></item></channel></rss>
"""


class Application:
    """A subscriber with its callbacks, in a thread."""

    def __init__(self, directory: Path) -> None:
        self.received: list[bytes] = []
        self.verified: list[str] = []
        self.app = Flask(__name__)
        database = str(directory / "subscriber.sqlite3")
        self.subscriber = Subscriber(SQLite3SubscriberStorage(database), SQLite3TempSubscriberStorage(database))
        self.app.register_blueprint(self.subscriber.build_blueprint("/callbacks"))
        self.subscriber.add_listener(lambda topic, callback, body: self.received.append(body))
        self.subscriber.add_success_handler(lambda topic, callback, mode: self.verified.append(mode))
        self._server = make_server("127.0.0.1", 0, self.app, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """A method of the subscriber, and wait until the hub has verified what it wants."""
        before = len(self.verified)
        with self.app.test_request_context(base_url=f"http://127.0.0.1:{self._server.server_port}"):
            result = getattr(self.subscriber, name)(*arguments, **named)
        eventually(lambda: len(self.verified) > before)
        return result

    def __enter__(self) -> Application:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("feeds") / "data", hooks={"allow": ["127.0.0.0/8"]}) as service:
        yield service


def title(body: bytes) -> str:
    feed = feedparser.parse(body)
    assert not feed.bozo
    return str(feed.entries[0].title)


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [("atom", "/a:feed[a:entry]", ATOM), ("rss", "/rss/channel[item]", RSS)],
    ids=["atom", "rss"],
)
def test_discover_subscribe_renew_receive_unsubscribe(
    hub: Service, tmp_path: Path, name: str, query: str, document: str
) -> None:
    hub.subscribe(name, query, namespaces={"a": "http://www.w3.org/2005/Atom"})
    hub.publish(document.format(title="first"))
    topic = f"http://127.0.0.1:{hub.port}/v1/topics/{name}"
    with Application(tmp_path) as application, witness(hub, topic) as seen:
        links = discover(topic)
        assert links == {"topic_url": topic, "hub_url": f"http://127.0.0.1:{hub.port}/v1/hub"}
        callback = application.call("subscribe", **links, lease_seconds=3600)
        second = document.format(title="Zweitens: ä")
        hub.publish(second)
        eventually(lambda: application.received)
        assert application.received == [second.encode()] and title(application.received[0]) == "Zweitens: ä"
        assert hub.ask("GET", f"/v1/topics/{name}").body == second.encode()
        assert hub.ask("GET", f"/v1/topics/{name}").headers["content-type"] == f"application/{name}+xml"
        assert feedparser.parse(topic).entries[0].title == "Zweitens: ä"

        application.call("renew", callback)
        hub.publish(document.format(title="third"))
        eventually(lambda: len(application.received) == 2)
        assert title(application.received[1]) == "third"

        application.call("unsubscribe", callback)
        eventually(lambda: hub.ask("GET", "/metrics").body.count(b"treecast_websub_subscribers 1.0\n") == 1)
        hub.publish(document.format(title="fourth"))
        eventually(lambda: len(seen.requests) == 4)  # one question, three contents
        assert [title(body) for body in application.received] == ["Zweitens: ä", "third"]
        assert application.verified == ["subscribe", "subscribe", "unsubscribe"]


class witness:  # noqa: N801  (used as a function)
    """Another subscriber of the topic: when it has got something, the first one would have, too."""

    def __init__(self, hub: Service, topic: str) -> None:
        self._hub, self._topic = hub, topic
        self._receiver = HookReceiver(self._answer)

    def _answer(self, request: Received) -> Response:
        challenge = request.path.partition("hub.challenge=")[2].partition("&")[0]
        return Response(200, {}, challenge.encode())

    def _ask(self, mode: str, count: int) -> None:
        form = {"hub.mode": mode, "hub.topic": self._topic, "hub.callback": self._receiver.url}
        assert self._hub.ask("POST", "/v1/hub", urlencode(form).encode()).status == 202
        eventually(
            lambda: self._hub.ask("GET", "/metrics").body.count(f"treecast_websub_subscribers {count}.0\n".encode())
        )

    def __enter__(self) -> HookReceiver:
        self._receiver.__enter__()
        self._ask("subscribe", 1)
        return self._receiver

    def __exit__(self, *_: object) -> None:
        self._ask("unsubscribe", 0)
        self._receiver.__exit__()
