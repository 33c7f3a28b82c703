"""The pages of WebSub: the hub, and the topics that lead to it."""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec

from treecast.serve.doors.calls import Call, Reply
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.visible import check_subscription
from treecast.serve.hooks.sender import check_url
from treecast.serve.websub.content import XML, content_type
from treecast.serve.websub.forms import SECRET_BYTES_MAX, HubForm
from treecast.serve.websub.hub import Hub, Intent
from treecast.serve.websub.links import base_url, link_header, topic_of, topic_url
from treecast.serve.websub.topics import Topics

FORM_BYTES_MAX = 64 << 10
FIELDS_MAX = 100


class WebSubPages:
    """For subscribers."""

    def __init__(self, hub: Hub, topics: Topics, settings: DoorSettings) -> None:
        self._hub = hub
        self._topics = topics
        self._settings = settings.websub
        self._url_chars_max = settings.hooks.url_chars_max

    async def topic(self, call: Call) -> Reply:
        """The last payload, and where to subscribe. Before there is a payload, only the latter."""
        url = topic_url(base_url(call, self._settings.public_url), call.parameter)
        payload = await self._topics.last(call.parameter)
        links = (("link", link_header(url)),)
        if payload is None:
            return Reply(204, b"", XML, links)
        return Reply(200, payload, content_type(payload), links)

    async def hub(self, call: Call) -> Reply:
        base = base_url(call, self._settings.public_url)
        form = _form(await call.body(FORM_BYTES_MAX))
        topic = topic_of(form.topic, base)
        if topic is None:
            hint = f"those of this hub begin with {base}/v1/topics/"
            raise DoorError(f"{form.topic[:200]!r} is not a topic of this hub", code="TC412", hint=hint)
        check_subscription(call.access, topic)
        url = check_url(form.callback, self._url_chars_max)
        callback = form.callback.partition("#")[0] if form.callback.isascii() else str(url)
        secret = form.secret.encode()
        if len(secret) > SECRET_BYTES_MAX:
            raise DoorError(f"hub.secret has at most {SECRET_BYTES_MAX} bytes", code="TC434")
        settings = self._settings
        requested_s = form.lease_seconds or settings.lease_s
        lease_s = max(settings.lease_s_min, min(requested_s, settings.lease_s_max))
        await self._hub.request(Intent(form.mode, topic, form.topic, callback, secret, lease_s))
        return Reply(202, b"", "text/plain")


def _form(body: bytes) -> HubForm:
    """Raises DoorError TC434."""
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
        return msgspec.convert(dict(fields), HubForm, strict=False)
    except (ValueError, msgspec.ValidationError) as error:
        raise DoorError(f"the form cannot be used: {error}", code="TC434") from None
