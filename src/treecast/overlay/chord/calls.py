"""Questions that wait for their answers: asked again when no answer comes, and given up in the end.

A question has a nonce, which its answer repeats. What happens next is a function that is called with the answer, or
one that is called when the other side has not answered. Both are lost in a crash, like all that a peer was about to do.

    >>> from random import Random
    >>> sent = []
    >>> calls = Calls("p1", Random(1), lambda to, message: sent.append((to, message)), calls_max=10)
    >>> calls.start("p2", lambda nonce: nonce, print, lambda: print("no answer"), timeout_ms=100, attempts=2)
    >>> calls.tick(50); calls.tick(150); len(sent)
    2
    >>> calls.answer("p2", sent[0][1], "here I am")
    here I am
    True
    >>> calls.answer("p2", sent[0][1], "again")
    False
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any


class _Call:
    __slots__ = ("answer", "attempts", "failure", "message", "timeout_ms", "to")

    def __init__(
        self, to: str, message: Any, answer: Callable[[Any], None], failure: Callable[[], None], timeout_ms: int,
        attempts: int,
    ) -> None:  # fmt: skip
        self.to = to
        self.message = message
        self.answer = answer
        self.failure = failure
        self.timeout_ms = timeout_ms
        self.attempts = attempts


class Calls:
    """All questions of one peer, which has this name. `send` sends a message."""

    def __init__(self, name: str, random: Random, send: Callable[[str, Any], None], calls_max: int) -> None:
        self._name = name
        self._random = random
        self._send = send
        self._calls_max = calls_max
        self._calls: dict[int, _Call] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._now_ms = 0
        self.refused = 0
        """Questions that were not asked, because too many waited."""
        self.silent: dict[str, int] = {}
        """Other peers that have not answered lately, with the time of that."""

    def __len__(self) -> int:
        return len(self._calls)

    def start(
        self, to: str, message_of: Callable[[int], Any], answer: Callable[[Any], None], failure: Callable[[], None],
        timeout_ms: int, attempts: int,
    ) -> None:  # fmt: skip
        """Ask. One of the two functions is called later, unless the peer crashes; `failure` at once if all is full."""
        if len(self._calls) >= self._calls_max:
            self.refused += 1
            failure()
            return
        # A nonce of an earlier life must not meet a question of this one.
        nonce = self._random.getrandbits(62)
        while nonce in self._calls:
            nonce = self._random.getrandbits(62)
        message = message_of(nonce)
        self._calls[nonce] = _Call(to, message, answer, failure, timeout_ms, attempts - 1)
        heappush(self._deadlines, (self._now_ms + timeout_ms, nonce))
        self._send(to, message)

    def answer(self, sender: str, nonce: int, message: Any) -> bool:
        """An answer has come. False: nobody waits for it, at least not from there."""
        call = self._calls.get(nonce)
        if call is None or call.to != sender:
            return False
        del self._calls[nonce]
        self.silent.pop(sender, None)
        call.answer(message)
        return True

    def extend(self, sender: str, nonce: int, attempts: int) -> None:
        """The other side is there, and works on it: so many more attempts."""
        call = self._calls.get(nonce)
        if call is not None and call.to == sender:
            call.attempts = attempts

    def tick(self, now_ms: int) -> None:
        """`now_ms` never goes back."""
        self._now_ms = now_ms
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, nonce = heappop(self._deadlines)
            call = self._calls.get(nonce)
            if call is None:
                continue
            if call.attempts > 0:
                call.attempts -= 1
                heappush(self._deadlines, (now_ms + call.timeout_ms, nonce))
                self._send(call.to, call.message)
            else:
                del self._calls[nonce]
                # A peer does not answer itself before it is a member, and may not ask itself again.
                if call.to != self._name:
                    self.silent[call.to] = now_ms
                call.failure()
