"""How a service is doing, as lines of text: rates with a curve of the last minute, lag, sizes, the longest queues.

>>> sparkline([0, 1, 2, 4], 4, ascii_only=False), sparkline([0, 1, 2, 4], 2, ascii_only=True)
('▁▃▅█', '.#')

The same lines serve for a live screen, for a pipe, and without colour. No line is wider than asked for, and texts of
strangers (ids) are shown without control characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from treecast.names import printable

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.-=*#"
BOLD, DIM, RED, YELLOW, GREEN, RESET = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"
RATES = (("published", GREEN), ("delivered", GREEN), ("refused", RED))
LABEL_CHARS, NUMBER_CHARS = 10, 9
QUEUE_HEADS = ("waiting", "sent", "readers", "oldest")
LAG_MS_MUCH = 10_000


class StatusScreen:
    """Draws answers of `GET /v1/status`."""

    def __init__(self, url: str, *, colour: bool, ascii_only: bool) -> None:
        self._url = url
        self._colour = colour
        self._ascii_only = ascii_only

    def lines(self, status: Mapping[str, Any], columns: int, rows: int = 1_000) -> list[str]:
        """At most so many lines, none of them wider than `columns`."""
        lines = [
            self._title(status, columns),
            "",
            *self._rates(status, columns),
            self._lag(status, columns),
            "",
            *self._sizes(status["sizes"], columns),
            "",
        ]
        lines += self._queues(status["queues"], columns, max(rows - len(lines), 2))
        return [line.replace("…", "~") if self._ascii_only else line for line in lines[:rows]]

    def paint(self, text: str, colour: str) -> str:
        return f"{colour}{text}{RESET}" if self._colour and colour and text else text

    def _title(self, status: Mapping[str, Any], columns: int) -> str:
        left = printable(f"{status['broker']}, treecast {status['version']}, {self._url}")
        right = f"up {duration(status['uptime_ms'])}"
        left = fit(left, max(columns - len(right) - 2, 10))
        return self.paint(left, BOLD) + " " * max(columns - width(left) - len(right), 1) + right

    def _rates(self, status: Mapping[str, Any], columns: int) -> list[str]:
        room = columns - LABEL_CHARS - 3 * (NUMBER_CHARS + 1) - 2
        heads = "".join(f" {text:>{NUMBER_CHARS}}" for text in ("10 s", "60 s", "total"))
        lines = [self.paint(fit(f"{'by second':<{LABEL_CHARS}}{heads}  the last minute", columns), DIM)]
        recent, history = status["rates"], status["history"]
        for name, colour in RATES:
            numbers = (rate(recent["last_10_s"][name]), rate(recent["last_60_s"][name]), count(status["totals"][name]))
            line = f"{name:<{LABEL_CHARS}}" + "".join(f" {text:>{NUMBER_CHARS}}" for text in numbers)
            is_plain = name == "refused" and not status["totals"][name]
            curve = sparkline(history[name], min(room, 60), ascii_only=self._ascii_only)
            lines.append(fit(line, columns) + ("  " + self.paint(curve, "" if is_plain else colour) if curve else ""))
        return lines

    def _lag(self, status: Mapping[str, Any], columns: int) -> str:
        lag = status["lag"]
        text = f"{'lag':<{LABEL_CHARS}} {duration(lag['receivers_ms']):>{NUMBER_CHARS}}  of those who receive"
        if lag["oldest_ms"]:
            text += f"; document {lag['oldest_document']} waits for {duration(lag['oldest_ms'])}"
        return self.paint(fit(text, columns), YELLOW if lag["receivers_ms"] > LAG_MS_MUCH else "")

    def _sizes(self, sizes: Mapping[str, Any], columns: int) -> list[str]:
        held = [
            plural(sizes["documents"], "document"),
            plural(sizes["subscriptions"], "subscription"),
            plural(sizes["sources"], "source"),
            plural(sizes["streams"], "stream"),
            plural(sizes["sessions"], "session"),
        ]
        letters = plural(sizes["letters"], "dead letter")
        disk = f"disk: {size(sizes['store_bytes'])} used, {size(sizes['free_bytes'])} free"
        second = f"{letters}, {disk}"
        return [fit(", ".join(held), columns), self.paint(fit(second, columns), YELLOW if sizes["letters"] else "")]

    def _queues(self, queues: Sequence[Mapping[str, Any]], columns: int, rows: int) -> list[str]:
        room = max(columns - 4 * (NUMBER_CHARS + 1) - 8, 10)
        heads = "".join(f" {text:>{NUMBER_CHARS}}" for text in QUEUE_HEADS)
        lines = [self.paint(fit(f"{pad('longest queues', room)}{heads}", columns), DIM)]
        waiting = [queue for queue in queues if queue["waiting"] or queue["sent"] or queue["is_parked"]]
        if not waiting:
            return [*lines, "nothing waits"]
        for queue in waiting[: rows - 1]:
            counts = [count(queue[name]) for name in ("waiting", "sent", "receivers")]
            numbers = (*counts, duration(queue["oldest_ms"]))
            state = " paused" if queue["is_paused"] else " parked" if queue["is_parked"] else ""
            line = pad(fit(printable(queue["subscription"]), room), room)
            lines.append(fit(line + "".join(f" {text:>{NUMBER_CHARS}}" for text in numbers) + state, columns))
        return lines


def sparkline(values: Sequence[float], columns: int, *, ascii_only: bool) -> str:
    """The last values as a curve, of which each column shows one, or the largest of several."""
    signs = ASCII if ascii_only else BLOCKS
    if columns < 1 or not values:
        return ""
    step = -(-len(values) // columns)
    beginning = len(values) % step
    groups = [values[:beginning]] if beginning else []
    groups += [values[place : place + step] for place in range(beginning, len(values), step)]
    peaks = [max(group) for group in groups]
    top = max(peaks) or 1
    return "".join(signs[min(int(value / top * len(signs)), len(signs) - 1)] for value in peaks)


def rate(value: float) -> str:
    """
    >>> rate(0), rate(0.25), rate(5.02), rate(12_345)
    ('0', '0.2', '5.0', '12,345')
    """
    return "0" if value == 0 else f"{value:.1f}" if value < 100 else count(round(value))


def count(value: int) -> str:
    """
    >>> count(12_345), count(12_345_678)
    ('12,345', '12.3 M')
    """
    return f"{value:,}" if value < 1_000_000 else f"{value / 1e6:.1f} M" if value < 1e9 else f"{value / 1e9:.1f} G"


def plural(value: int, noun: str) -> str:
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def size(value: int) -> str:
    """
    >>> size(900), size(12_345_678)
    ('900 B', '12.3 MB')
    """
    if value < 1_000:
        return f"{value} B"
    for unit, factor in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if value < factor * 1_000:
            return f"{value / factor:.1f} {unit}"
    return f"{value / 1e12:.1f} TB"


def duration(time_ms: int) -> str:
    """
    >>> duration(0), duration(12), duration(4_200), duration(125_000), duration(90_000_000)
    ('0 ms', '12 ms', '4.2 s', '2 m 5 s', '1 d 1 h')
    """
    if time_ms < 1_000:
        return f"{time_ms} ms"
    if time_ms < 60_000:
        return f"{time_ms / 1000:.1f} s"
    seconds = time_ms // 1000
    for unit, factor, smaller, part in (("m", 60, "s", 1), ("h", 3_600, "m", 60), ("d", 86_400, "h", 3_600)):
        if unit == "d" or seconds < factor * (60 if unit == "m" else 24):
            return f"{seconds // factor} {unit} {seconds % factor // part} {smaller}"
    raise AssertionError(time_ms)


def width(text: str) -> int:
    """In columns of a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fit(text: str, columns: int) -> str:
    """
    >>> fit("subscription", 8), fit("短い名前", 7)
    ('subscri…', '短い名…')
    """
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[:-1]
    return text + "…"


def pad(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))
