"""When to send a hook again. No clock of its own.

    >>> from random import Random
    >>> settings = HookSettings(retry_ms=1_000, retry_ms_max=8_000)
    >>> [wait_ms(attempt, 0, settings, Random(1)) for attempt in (1, 2, 3, 9)]
    [568, 1137, 2275, 4550]
    >>> wait_ms(1, 30_000, settings, Random(1))
    30568

An endpoint that is busy may say for how long (RFC 9110, section 10.2.3):

    >>> retry_after_ms("120", now_ms=0), retry_after_ms("Thu, 01 Jan 1970 00:01:00 GMT", now_ms=20_000)
    (120000, 40000)
    >>> retry_after_ms("soon", now_ms=0), retry_after_ms("-5", now_ms=0)
    (0, 0)
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from random import Random

from treecast.serve.hooks.settings import HookSettings

_DIGITS_MAX = 9


def wait_ms(attempt: int, asked_ms: int, settings: HookSettings, random: Random) -> int:
    """After this attempt (from 1) has failed: twice as long each time, half of it by chance, and as asked for."""
    time_ms = min(settings.retry_ms << min(attempt - 1, 30), settings.retry_ms_max)
    wait = random.randint((time_ms + 1) // 2, time_ms)
    return max(1, wait + min(asked_ms, settings.retry_after_ms_max))


def retry_after_ms(text: str, now_ms: int) -> int:
    """What a header `Retry-After` asks for; 0 if that is nothing, or in the past."""
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX:
        return int(text) * 1000
    try:
        date = parsedate_to_datetime(text)
        return max(0, round(date.timestamp() * 1000) - now_ms)
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0
