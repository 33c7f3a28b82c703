"""An invented newswire: small stories, and what many people would each like to hear of them.

    >>> from treecast.workload.newswire import stories, wishes
    >>> story = next(stories(1, seed=7))
    >>> story.startswith(b'<story id="n0000000" desk=')
    True
    >>> len({wish.query for wish in wishes(1_000, seed=7)}) > 900
    True

Use it to show what treecast does, with texts that people can read; use `treecast.workload.generate_documents` to
measure it on documents of a DTD. Equal numbers and seeds give equal texts. Names are made of syllables: no place,
company, team or person is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from treecast.model import Subscription

DESKS = ("markets", "sport", "politics", "weather", "science", "courts")
REGIONS = ("north", "south", "east", "west", "islands")
SYLLABLES = ("kel", "vik", "mar", "ton", "har", "bour", "lin", "dal", "os", "ber", "ny", "ros", "fal", "en", "ster")
PEOPLE = ("Ada", "Bo", "Cleo", "Dirk", "Edda", "Finn", "Gita", "Hugo", "Iris", "Jun", "Kai", "Lena", "Milo", "Nora")
ENDINGS = ("Steel", "Grain", "Rail", "Optics", "Shipping", "Water", "Bank", "Energy")
EVENTS = ("strike", "merger", "recall", "storm", "record", "inquiry", "ceasefire", "appeal", "launch", "drought")
LINES = (
    "It was the third time this month, people at the scene said.",
    "Nobody at the harbour office could be reached in the evening.",
    "A spokesperson confirmed the figures but gave no reason.",
    "Further talks are expected before the end of the week.",
    "The announcement came hours after the close of trading.",
    "Neighbours had warned of it since the spring.",
)
PLACES_MAX, COMPANIES_MAX, TEAMS_MAX = 400, 4_000, 200
"""So many different ones there are."""


def stories(count: int, *, seed: int = 0) -> Iterator[bytes]:
    """So many documents of about a kilobyte."""
    random = Random(f"stories {seed}")
    for number in range(count):
        desk = random.choice(DESKS)
        place = place_name(_common(random, PLACES_MAX))
        event = random.choice(EVENTS)
        parts = [
            f'<story id="n{number:07d}" desk="{desk}" urgency="{_urgency(random)}" region="{random.choice(REGIONS)}">',
            f"  <headline>{place}: {_headline(random, desk, event)}</headline>",
            f"  <place>{place}</place>",
            *(_company(random) for _ in range(random.randint(1, 3) if desk == "markets" else random.randint(0, 1))),
            *([_game(random)] if desk == "sport" else []),
            *(f"  <person><name>{person_name(random)}</name></person>" for _ in range(random.randint(0, 2))),
            "  <body>",
            *(f"    <p>{' '.join(random.sample(LINES, 3))}</p>" for _ in range(random.randint(1, 4))),
            "  </body>",
            "</story>\n",
        ]
        yield "\n".join(parts).encode()


def wishes(count: int, *, seed: int = 0) -> Iterator[Subscription]:
    """So many subscriptions; half of them ask for elements, the others for whole stories."""
    random = Random(f"wishes {seed}")
    for number in range(count):
        kind, query = _wish(random)
        yield Subscription(f"{kind}/{number:06d}", query, deliver="elements" if number % 2 else "document")


def _wish(random: Random) -> tuple[str, str]:
    draw = random.random()
    if draw < 0.4:
        ticker = ticker_name(_common(random, COMPANIES_MAX))
        return "alert", f'//company[@ticker="{ticker}"][price > {random.randint(20, 200)}]'
    if draw < 0.6:
        place = place_name(_common(random, PLACES_MAX))
        event = random.choice(EVENTS)
        return "local", f'/story[@desk="{random.choice(DESKS)}"][place="{place}"]/headline[contains(., "{event}")]'
    if draw < 0.75:
        return "person", f'//person[name="{person_name(random)}"]'
    if draw < 0.9:
        team = team_name(_common(random, TEAMS_MAX))
        return "team", f'//game[team="{team}"][goals > {random.randint(4, 9)}]'
    change = random.randint(30, 95) / 10
    return "desk", f'/story[@region="{random.choice(REGIONS)}"][@urgency=1]/company[change > {change}][price > 150]'


def _common(random: Random, size: int) -> int:
    """A number below `size`; small ones are drawn more often, as some names are in the news all the time."""
    return int(size * random.random() ** 2)


def _urgency(random: Random) -> int:
    return 1 + int(5 * random.random() ** 0.5)


def _headline(random: Random, desk: str, event: str) -> str:
    forms = (
        f"{event} surprises {desk} desk",
        f"after the {event}",
        f"what the {event} means for {desk}",
        f"no {event} yet",
    )
    return random.choice(forms)


def _company(random: Random) -> str:
    number = _common(random, COMPANIES_MAX)
    name = f"{place_name(number % PLACES_MAX)} {ENDINGS[number % len(ENDINGS)]}"
    price, change = random.randint(100, 22_000) / 100, random.randint(-99, 99) / 10
    figures = f'<price currency="EUR">{price:.2f}</price><change>{change}</change>'
    return f'  <company ticker="{ticker_name(number)}"><name>{name}</name>{figures}</company>'


def _game(random: Random) -> str:
    teams = [team_name(_common(random, TEAMS_MAX)) for _ in range(2)]
    team_elements = "".join(f"<team>{team}</team>" for team in teams)
    return f"  <game>{team_elements}<goals>{random.randint(0, 9)}</goals></game>"


def place_name(number: int) -> str:
    """The name of a place.

    >>> place_name(0), place_name(17)
    ('Kelkel', 'Marvik')
    """
    size = len(SYLLABLES)
    name = SYLLABLES[number % size] + SYLLABLES[number // size % size]
    return (name + SYLLABLES[number // size // size] if number >= size * size else name).capitalize()


def ticker_name(number: int) -> str:
    """The sign of a company at the exchange."""
    return f"{place_name(number % PLACES_MAX)[:3].upper()}{number:04d}"


def team_name(number: int) -> str:
    return f"{place_name(number)} {'United' if number % 3 else 'Rovers'}"


def person_name(random: Random) -> str:
    """One of some thousand people."""
    return f"{random.choice(PEOPLE)} {place_name(int(PLACES_MAX * random.random()))}"
