"""Random regular expressions for `matches()`, and values that come near to matching them.

    drawer = RegexDrawer(Random(7))
    drawer.regex()       # a `Regex`: for treecast and Saxon, and the same for Python's re, if it has the construct

Few characters, so that much matches. A value is drawn by walking through a pattern, then changed a little.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

CHARACTERS = "abcabcABk1é\n -."
SPECIAL = "\\|.?*+(){}-[]^$"
# An escape of XPath, and the same as a class of Python's re over the characters that are drawn.
CLASSES = {
    r"\d": r"[0-9]",
    r"\D": r"[^0-9]",
    r"\s": r"[ \t\n\r]",
    r"\S": r"[^ \t\n\r]",
    r"\w": r"[A-Za-z0-9éÉ\u212a]",
    r"\W": r"[^A-Za-z0-9éÉ\u212a]",
    r"\i": r"[A-Za-z_:éÉ\u212a]",
    r"\C": r"[^A-Za-z0-9_:.éÉ\u212a-]",
    r"\p{L}": r"[A-Za-zéÉ\u212a]",
    r"\p{Lu}": r"(?-i:[A-ZÉ\u212a])",
    r"\P{P}": r"(?-i:[^.!-])",
}
FLAGS = ("", "", "", "i", "s", "m", "x", "im", "smi", "xs")
EXAMPLES = {r"\d": "1", r"\s": " ", r"\w": "b", r"\i": "a", r"\p{L}": "é", r"\p{Lu}": "B", r"\D": "a", r"\S": "-"}


@dataclass(frozen=True)
class Regex:
    text: str
    flags: str
    python: str  # for re.search

    @property
    def python_flags(self) -> str:
        return "".join(flag for flag in self.flags if flag in "i")


@dataclass
class RegexDrawer:
    random: Random
    flags: str = ""

    def regex(self) -> Regex:
        self.flags = self.random.choice(FLAGS)
        text, python = self.branches(0)
        return Regex(text, self.flags, python)

    def branches(self, depth: int) -> tuple[str, str]:
        parts = [self.sequence(depth) for _ in range(self.random.choice((1, 1, 1, 2, 3)))]
        return "|".join(text for text, _ in parts), "|".join(python for _, python in parts)

    def sequence(self, depth: int) -> tuple[str, str]:
        parts = [self.piece(depth) for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 4)))]
        space = " " if "x" in self.flags and self.random.random() < 0.5 else ""
        return space.join(text for text, _ in parts), "".join(python for _, python in parts)

    def piece(self, depth: int) -> tuple[str, str]:
        text, python = self.atom(depth)
        if text in "^$" or self.random.random() < 0.6:
            return text, python
        low = self.random.choice((0, 1, 2))
        times = self.random.choice(
            ("?", "*", "+", f"{{{low}}}", f"{{{low},}}", f"{{{low},{low + self.random.choice((0, 1, 3))}}}")
        )
        return text + times + self.random.choice(("", "", "?")), f"(?:{python}){times}"

    def atom(self, depth: int) -> tuple[str, str]:
        form = self.random.random()
        if form < 0.5:
            return self.character()
        if form < 0.6 and depth < 3:
            text, python = self.branches(depth + 1)
            return f"{self.random.choice(('(', '(?:'))}{text})", f"(?:{python})"
        if form < 0.75:
            return self.bracket(depth)
        if form < 0.85:
            return self.random.choice(list(CLASSES.items()))
        if form < 0.92:
            return ".", "(?s:.)" if "s" in self.flags else r"[^\n\r]"
        return self.random.choice((("^", self.line_start()), ("$", self.line_end())))

    def line_start(self) -> str:
        """With lines, not behind the line end that ends the value."""
        return r"(?:\A|(?<=\n)(?!\Z))" if "m" in self.flags else r"\A"

    def line_end(self) -> str:
        return r"(?:(?=\n)|(?<!\n)\Z)" if "m" in self.flags else r"\Z"

    def character(self) -> tuple[str, str]:
        character = self.random.choice(CHARACTERS)
        if character == "\n":
            return r"\n", r"\n"
        if character == " " and "x" in self.flags:
            return "[ ]", "[ ]"
        if character in SPECIAL:
            return "\\" + character, "\\" + character
        return character, "\\ " if character == " " else character

    def bracket(self, depth: int) -> tuple[str, str]:
        items, python = "", ""
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if self.random.random() < 0.3:
                first, last = sorted((self.random.choice("abck1"), self.random.choice("abck1")))
                items, python = f"{items}{first}-{last}", f"{python}{first}-{last}"
            elif self.random.random() < 0.2:
                name = self.random.choice((r"\d", r"\s", r"\w"))
                items, python = items + name, python + CLASSES[name][1:-1]
            else:
                text, own = self.character() if "x" not in self.flags else ("b", "b")
                items, python = items + text, python + own
        negative = self.random.choice(("", "", "^"))
        if self.random.random() < 0.2:
            less, own = self.bracket(depth)
            return f"[{negative}{items}-{less}]", f"(?:(?!{own})[{negative}{python}])"
        return f"[{negative}{items}]", f"[{negative}{python}]"

    def value(self, regex: Regex) -> str:
        """What is written in the pattern, without most of its signs: near enough to match now and then."""
        random = self.random
        if random.random() < 0.5:
            return "".join(random.choice(CHARACTERS + "\u212aK") for _ in range(random.choice((0, 1, 2, 3, 5, 8))))
        text = regex.text
        for name, example in EXAMPLES.items():
            text = text.replace(name, example)
        text = "".join(each for each in text.replace(r"\n", "\n") if each in CHARACTERS)
        drop = random.randrange(len(text) + 1)
        return text[:drop] + text[drop + random.choice((0, 0, 1)) :]
