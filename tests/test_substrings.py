"""contains(): many literals at once give what Python's `in` says, whatever they share."""

from __future__ import annotations

from random import Random

import pytest

from treecast import Index


def check(literals: list[str], texts: list[str]) -> None:
    index = Index()
    index.add_many((str(number), f'//a[contains(., "{literal}")]') for number, literal in enumerate(literals))
    for text in texts:
        expected = [str(number) for number, literal in enumerate(literals) if literal in text]
        assert index.match(f"<a>{text}</a>".encode()) == expected, text


@pytest.mark.parametrize("alphabet", ["ab", "abc", "abcdefghijklmnopqrstuvwxyzäöü€"])
def test_drawn_literals(alphabet: str) -> None:
    """Few letters: literals inside literals. Many: states with more children than are listed."""
    random = Random(alphabet)

    def text(length: int) -> str:
        return "".join(random.choices(alphabet, k=random.randint(1, length)))

    for _ in range(8):
        check([text(5) for _ in range(150)], [text(12) for _ in range(60)])


def test_more_states_with_many_children_than_get_a_table() -> None:
    """States near the root have tables; of the others some list eleven children, some have all letters."""
    random = Random("children")
    letters = [chr(letter) for letter in range(0x30, 0x7B) if chr(letter) not in "<>"]
    numbers = [f"w{number}x" for number in range(3000)]
    words = [f"w{start}{letter}" for start in (7, 290, 2999) for letter in letters]
    texts = ["".join(random.choices(numbers, k=5)) + random.choice(words)[:-1] for _ in range(40)]
    check(numbers + words, [*texts, *(word[1:] + word for word in words[::9]), "w", "wx", "w1", "w12y", "w29990"])


def test_literals_that_end_each_other() -> None:
    """All of them end at every letter of the text; each is found once, not once per letter."""
    check(["a" * length for length in range(1, 200)], ["a" * 150, "a" * 5000, "aab" * 100, "b"])


def test_a_literal_as_long_as_a_query_can_be() -> None:
    literal = "".join(Random("long").choices("ab", k=40_000))
    check(
        [literal, literal[1:], literal[:-1], literal[20_000:], "ba"],
        [literal, literal[1:], "a" + literal[:-1], "ab" * 9],
    )


def test_labels_have_automata_of_their_own() -> None:
    index = Index()
    index.add_many(
        (f"{name}{word}", f'//{name}[contains(., "{word}")]') for name in "abc" for word in ("x", "xy", "yx")
    )
    assert index.match(b"<r><a>xyx</a><b>x</b><c>y</c></r>") == ["ax", "axy", "ayx", "bx"]
