"""Conditions on values that functions make of one item: normalize-space(), translate(), string-length(), arithmetic.

Paths, texts and constants are chosen so that all corners occur: no item, the first of several, nothing but space, space
that is none for XML, numbers that are none, texts of more bytes than are handled one by one, and literals that hold for
what is not there.
"""

from __future__ import annotations

from random import Random

NAMESPACES = {"p": "urn:p"}
NAMES = ("a", "b", "c", "item", "p:a", "p:b")
VALUES = (
    *("", " ", "x", "x y", " x  y ", "xx", "X", "Xy", "10", "5", " 5 ", "-5", "0", "1.5", "abc", "ABC", "é", "éé x"),
    *("\t x", "x\n", "a-b", "b-a", "-", "NaN", "x" * 300, "y " * 200 + "x", " " * 300, "\u00a0x"),
)
PATHS = (
    *(".", ".", "@u", "@v", "@p:u", "a", "b", "item", "p:a", "*", "a/b", ".//a", "text()", "..", "parent::*", "a[1]"),
    *("ancestor::a", "following-sibling::*", "@*", "./a", "self::a", "preceding-sibling::a", "//a", "/r/a", "a | b"),
    *("a[@u]", "(a)[1]", "node()"),
)
LITERALS = (
    *('""', '"x"', '"x y"', '"xx"', '"10"', '"5"', '"a"', '"p:a"', '"abc"', '"b"', '"é"', '" "', '"y"', '"urn:p"'),
    *('"urn:d"', "'-'", '"item"', '"X"', '"r"', '"y y"', '" x "', '"x "'),
)
NUMBERS = ("0", "1", "2", "3", "5", "10", "-5", "1.5", "300", "299", "100")
RELATIONS = ("=", "!=", "<", "<=", ">", ">=", "=", "=")
SUBJECTS = (
    *("//a", "//*", "//b", "/r/*", "//item", "//p:a", "//@u", "//@*", "//text()", "/r", "//a/b", "//a[1]", "//*[2]"),
)


def written(value: str) -> str:
    for character in '&<"\n\t':
        value = value.replace(character, f"&#{ord(character)};")
    return value


def draw_element(random: Random, depth: int) -> str:
    name = random.choice(NAMES)
    attributes = random.sample(("u", "v", "p:u"), random.randint(0, 3))
    start = "".join(f' {attribute}="{written(random.choice(VALUES))}"' for attribute in attributes)
    parts = []
    for _ in range(random.randint(0, 3)):
        kind = random.random()
        if kind < 0.45:
            parts.append(written(random.choice(VALUES)))
        elif kind < 0.52:
            parts.append(random.choice(("<!--c-->", "<?x y?>")))
        elif depth:
            parts.append(draw_element(random, depth - 1))
    default = random.choice(("", "", "", ' xmlns="urn:d"'))
    return f"<{name}{start}{default}>{''.join(parts)}</{name}>"


def draw_document(random: Random) -> bytes:
    inside = "".join(draw_element(random, 4) for _ in range(random.randint(1, 5)))
    return f'<r xmlns:p="urn:p">{inside}</r>'.encode()


def draw_text(random: Random, depth: int) -> str:
    """A function that gives a text."""
    inner = draw_text(random, depth - 1) if depth and random.random() < 0.4 else random.choice(PATHS)
    literal, other = random.choice(LITERALS), random.choice(LITERALS)
    name = random.choice(("name", "local-name", "namespace-uri"))
    number, length = random.choice(NUMBERS), random.choice(NUMBERS)
    return random.choice(
        (
            f"string({inner})",
            f"normalize-space({inner})",
            f"normalize-space({inner})",
            "normalize-space()",
            f"{name}({random.choice(PATHS)})",
            f"{name}()",
            f"translate({inner}, {literal}, {other})",
            f"substring({inner}, {number})",
            f"substring({inner}, {number}, {length})",
            f"substring-before({inner}, {literal})",
            f"substring-after({inner}, {literal})",
            f"concat({literal}, {inner}, {other})",
            f'concat({inner}, "-", {random.choice(PATHS)})',
        )
    )


def draw_number(random: Random, depth: int) -> str:
    """A function or an operation that gives a number."""
    path = random.choice(PATHS)
    leaf = random.choice((f"string-length({path})", f"string-length({draw_text(random, 1)})", f"number({path})"))
    if not depth or random.random() < 0.4:
        return leaf
    inner, number = draw_number(random, depth - 1), random.choice(NUMBERS)
    sign = random.choice(("+", "-", "*", "div", "mod"))
    rounding = random.choice(("floor", "ceiling", "round"))
    return random.choice(
        (f"{inner} {sign} {number}", f"{number} {sign} {inner}", f"-({inner})", f"{rounding}({inner})")
    )


def draw_condition(random: Random, depth: int = 2) -> str:
    literal, relation = random.choice(LITERALS), random.choice(RELATIONS)
    text, number = draw_text(random, 2), draw_number(random, 2)
    function = random.choice(("contains", "starts-with"))
    plain = (
        f"{text} {relation} {literal}",
        f"{literal} {relation} {text}",
        f"{text} {relation} {random.choice(NUMBERS)}",
        f"{number} {relation} {random.choice(NUMBERS)}",
        f"{random.choice(NUMBERS)} {relation} {number}",
        f"{number} {relation} {literal}",
        f"{function}({text}, {literal})",
        f"{function}({random.choice(PATHS)}, {literal})",
        text,
        f"boolean({number})",
        f"count({random.choice(('a', '*', 'a/b', '@*', './/b'))}) {relation} {random.choice(NUMBERS[:6])}",
    )
    if not depth or random.random() < 0.75:
        return random.choice(plain)
    first, second = draw_condition(random, depth - 1), draw_condition(random, depth - 1)
    return random.choice((f"not({first})", f"{first} and {second}", f"{first} or {second}"))


def draw_query(random: Random) -> str:
    query = f"{random.choice(SUBJECTS)}[{draw_condition(random)}]"
    form = random.random()
    if form < 0.1:
        return f"//item[a[{draw_condition(random, 1)}]]"
    if form < 0.2:
        return f"{query}[{draw_condition(random, 1)}]"
    if form < 0.25:
        return f"count({query}) > {random.choice(NUMBERS[:3])}"
    return query
