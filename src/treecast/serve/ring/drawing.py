"""A ring as a picture: places on a circle, arcs for what each of them owns, colours for how much its peer has to do."""

from __future__ import annotations

import math
from html import escape

from treecast.serve.ring.picture import PeerPicture, RingPicture

SIZE, MIDDLE, RADIUS = 640, 320, 170
LABEL_GAP = 0.02
"""Of a turn: names that are nearer would cover each other."""
DOT_MIN, DOT_MAX = 5.0, 18.0
LEVELS = ("#dbe9f6", "#a5cbe6", "#5ba3d0", "#2171b5", "#08396b")
"""From no load to twice the fair share and more."""
DOWN = "#d4543c"


def level_of(load: float, peers: int) -> int:
    """Which of five colours a share of the load gets: the middle one is what each of so many peers should have.

    >>> [level_of(load, 4) for load in (0.0, 0.1, 0.25, 0.4, 0.9)]
    [0, 1, 2, 3, 4]
    """
    fair = load * max(peers, 1)
    return sum(fair > bound for bound in (0.25, 0.75, 1.25, 2.0))


def draw(picture: RingPicture) -> str:
    """
    >>> from treecast.serve.ring.picture import PlacePicture
    >>> peer = PeerPicture("127.0.0.1:7501", True, True, True, [PlacePicture(0, 0.25, 7)], load=1.0, keys=7)
    >>> text = draw(RingPicture(3, 1, 0, [peer], []))
    >>> text.count("<circle"), "7 of 7 keys" in text, 'aria-label="A ring of 1 peer"' in text
    (2, True, True)
    """
    places = [(place.turn, place.owned, peer) for peer in picture.peers for place in peer.places]
    places.sort(key=lambda place: place[0])
    owned_total = sum(count for _, count, _ in places)
    up = sum(peer.is_up for peer in picture.peers)
    most = max((count for _, count, _ in places), default=0)
    parts = [f'<circle cx="{MIDDLE}" cy="{MIDDLE}" r="{RADIUS}" fill="none" stroke="#c8d0d8" stroke-width="2"/>']
    colours = {peer.name: LEVELS[level_of(peer.load, up)] if peer.is_up else DOWN for peer in picture.peers}
    if len(places) > 1:
        parts += [_arc(places[at - 1][0], turn, colours[peer.name]) for at, (turn, _, peer) in enumerate(places)]
    last = -1.0
    for turn, count, peer in places:
        radius = DOT_MIN + (DOT_MAX - DOT_MIN) * math.sqrt(count / most) if most else DOT_MIN
        title = f"{peer.name}: {count} of {owned_total} keys, {peer.load:.1%} of the load"
        parts.append(_dot(turn, radius, colours[peer.name], title))
        if turn - last >= LABEL_GAP:
            last = turn
            parts.append(_label(turn, peer))
    count_text = f"{len(picture.peers)} peer{'s' if len(picture.peers) != 1 else ''}"
    parts += _centre(picture, up, owned_total)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" font-family="sans-serif"'
    return f'{head} font-size="12" role="img" aria-label="A ring of {count_text}">{"".join(parts)}</svg>'


def _point(turn: float, radius: float) -> tuple[float, float]:
    """0 is on top, and turns go clockwise."""
    angle = 2 * math.pi * turn - math.pi / 2
    return MIDDLE + radius * math.cos(angle), MIDDLE + radius * math.sin(angle)


def _arc(begin: float, end: float, colour: str) -> str:
    span = (end - begin) % 1.0
    (x1, y1), (x2, y2) = _point(begin, RADIUS), _point(end, RADIUS)
    large = int(span > 0.5)
    return (
        f'<path d="M{x1:.1f} {y1:.1f} A{RADIUS} {RADIUS} 0 {large} 1 {x2:.1f} {y2:.1f}" fill="none" '
        f'stroke="{colour}" stroke-width="9"/>'
    )


def _dot(turn: float, radius: float, colour: str, title: str) -> str:
    x, y = _point(turn, RADIUS)
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" stroke="#1c2b39" stroke-width="1.5">'
        f"<title>{escape(title)}</title></circle>"
    )


def _label(turn: float, peer: PeerPicture) -> str:
    x, y = _point(turn, RADIUS + 26)
    anchor = "middle" if abs(x - MIDDLE) < RADIUS * 0.25 else "start" if x > MIDDLE else "end"
    colour = "#1c2b39" if peer.is_up else DOWN
    return f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(peer.name)}</text>'


def _centre(picture: RingPicture, up: int, owned_total: int) -> list[str]:
    lines = (
        f"{up} of {len(picture.peers)} peers up",
        f"{owned_total} states, {picture.replicas} copies of each",
        f"{sum(peer.subscriptions for peer in picture.peers)} subscriptions",
        f"{sum(peer.visits_per_second for peer in picture.peers):g} visits/s",
    )
    return [
        f'<text x="{MIDDLE}" y="{MIDDLE - 24 + 20 * number}" text-anchor="middle" fill="#1c2b39">{line}</text>'
        for number, line in enumerate(lines)
    ]
