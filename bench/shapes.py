"""Shapes of subscriptions, named ones and random ones, each 10,000 and 100,000 times: is there one that costs too much?

A shape is a query with some tests on one element. Its subscriptions differ in the values that they compare with: a test
may have one value for all of them, values as skewed (Zipf) as those of the documents, or one of its own for each.
Random shapes over random schemas find what nobody thought of. Few subscriptions match a document, so what is measured
is how the others are passed over. Every other shape is built in part one by one, with removals between.

Bars: half of lxml's parsing at 100,000 subscriptions, and at most 1.6 times what 10,000 cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from bench.inputs import as_table
from bench.measure import Report, Seconds, clock, finish, median, options_of, parse_all, run
from treecast import Index

COUNT, SMALLER = 100_000, 10
RATIO_MAX, GROWTH_MAX = 0.5, 1.6
ITEMS, DOCUMENTS = 40, 100
SAMPLE, MATCHES_MAX = 2_000, 10
CHURN, CHURNED = 0.05, ", some one by one"
RANDOM_SHAPES = 60
NUMBER_MAX = 1_000_000
IDS = 20 * COUNT

Drawn = Callable[[Random, int], str]
"""The text of one test of the subscription with this number."""


@dataclass(frozen=True)
class Field:
    """A value that every item has: an attribute, a child, or an attribute of a child."""

    path: str
    values: int
    """How many words there are, the first ones common; 0 for numbers."""

    def word(self, random: Random) -> str:
        """Zipf: word k is drawn about as often as 1/k; but of very many, as those of ids, all are alike."""
        drawn = random.randrange(self.values) if self.values >= IDS else int(self.values ** random.random()) - 1
        return f"w{drawn}x"

    def content(self, random: Random) -> str:
        return self.word(random) if self.values else str(random.randrange(NUMBER_MAX))


@dataclass(frozen=True)
class Schema:
    """A list of items: `attributes` and `children` of an item, and `attributes` of its child `meta`."""

    item: str
    attributes: tuple[Field, ...]
    children: tuple[Field, ...]
    inner: tuple[Field, ...]

    @classmethod
    def draw(cls, random: Random) -> Schema:
        def fields(prefix: str, paths: str) -> tuple[Field, ...]:
            sizes = [0, 2, 30, 1_000, IDS]
            random.shuffle(sizes)
            return tuple(Field(paths.format(f"{prefix}{place}"), size) for place, size in enumerate(sizes[:4]))

        item = random.choice(("item", "entry", "order"))
        return cls(item, fields("a", "@{}"), fields("c", "{}"), fields("b", "meta/@{}"))

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.attributes + self.children + self.inner

    def document(self, random: Random) -> bytes:
        def written(fields: Sequence[Field]) -> str:
            return "".join(f' {f.path.rpartition("@")[2]}="{f.content(random)}"' for f in fields)

        def item() -> str:
            children = "".join(f"<{f.path}>{f.content(random)}</{f.path}>" for f in self.children)
            meta = f"<meta{written(self.inner)}/>"
            return f"<{self.item}{written(self.attributes)}>{children}{meta}</{self.item}>\n"

        return f"<list>{''.join(item() for _ in range(ITEMS))}</list>".encode()


@dataclass(frozen=True)
class Shape:
    """`text` has a place for each of the tests."""

    schema: Schema
    text: str
    tests: tuple[Drawn, ...]

    def queries(self, count: int) -> list[str]:
        random = Random(f"{self.text} {count}")
        return [self.text.format(*(test(random, place) for test in self.tests)) for place in range(count)]

    def documents(self) -> list[bytes]:
        random = Random(self.text)
        return [self.schema.document(random) for _ in range(DOCUMENTS)]


# --- tests -----------------------------------------------------------------------------------------------------------


def draw_value(random: Random, field: Field) -> Drawn:
    """The word that a test compares with: one for all subscriptions, drawn as in documents, or one for each."""
    mode = random.choice(("shared", "skewed", "its own", "its own"))
    if mode == "shared":
        shared = random.choice((0, field.values // 2))
        return lambda _, place: f"w{shared}x"
    if mode == "skewed":
        return lambda draws, place: field.word(draws)
    return lambda _, place: f"w{place % field.values}x"


def draw_number_test(random: Random, field: Field) -> Drawn:
    form = random.choice(("interval", "interval", "above", "below", "far", "shared", "equal", "unequal"))
    path, step = field.path, NUMBER_MAX / COUNT

    def interval(draws: Random, place: int) -> str:
        low = place * step % NUMBER_MAX
        return f"{path} > {low:.2f} and {path} < {low + 0.1 * step:.2f}"

    forms: dict[str, Drawn] = {
        "interval": interval,
        "above": lambda draws, place: f"{path} > {place * step:.2f}",
        "below": lambda draws, place: f"{path} <= {place * step:.2f}",
        "far": lambda draws, place: f"{path} >= {NUMBER_MAX - 1 - place / COUNT:.6f}",
        "shared": lambda draws, place: f"{path} > 5",
        "equal": lambda draws, place: f"{path} = {place}",
        "unequal": lambda draws, place: f"{path} != {place}",
    }
    return forms[form]


def draw_test(random: Random, schema: Schema) -> Drawn:
    field = random.choice(schema.fields)
    if random.random() < 0.15:
        first, second = draw_test(random, schema), draw_test(random, schema)
        return lambda draws, place: f"({first(draws, place)} or {second(draws, place)})"
    if random.random() < 0.1:
        return (lambda _, place: f"not({field.path})") if random.random() < 0.3 else (lambda _, place: field.path)
    if not field.values:
        return draw_number_test(random, field)
    value = draw_value(random, field)
    path = f".//{field.path}" if not field.path.startswith("@") and random.random() < 0.2 else field.path
    owner, _, attribute = path.rpartition("/")
    if owner == "meta" and random.random() < 0.4:
        inner = random.choice([f for f in schema.inner if f.values])
        other, name = draw_value(random, inner), inner.path.rpartition("/")[2]
        return lambda draws, place: f'meta[{attribute}="{value(draws, place)}"][{name}="{other(draws, place)}"]'
    forms = ('{0}="{1}"',) * 6 + ('{0} != "{1}"', 'not({0}="{1}")', 'contains({0}, "{1}")', 'starts-with({0}, "{1}")')
    form = random.choice(forms)
    return lambda draws, place: form.format(path, value(draws, place))


def draw_shape(random: Random) -> Shape:
    schema = Schema.draw(random)
    tests = tuple(draw_test(random, schema) for _ in range(random.choice((1, 2, 2, 3, 3, 4))))
    glue = random.choice(("][", "][", " and "))
    holes = [f"{{{place}}}" for place in range(len(tests))]
    predicates = f"[{glue.join(holes)}]"
    if random.random() < 0.15:
        position = random.choice(("[2]", "[last()]", "[position() < 4]"))
        predicates = random.choice((position + predicates, predicates + position))
    start = random.choice(("//", "//", "/list/", "/*//")) + random.choice((schema.item, schema.item, schema.item, "*"))
    end = random.choice(("", "", f"/{schema.attributes[0].path}", "/meta", f"//{schema.children[0].path}"))
    return Shape(schema, start + predicates + end, tests)


def random_shapes(count: int, seed: int) -> Iterator[Shape]:
    """As many as are wanted of those that few subscriptions match by."""
    for number in range(100 * count):
        if not count:
            return
        shape = draw_shape(Random(f"{seed} shape {number}"))
        index = Index()
        index.add_many(as_table(shape.queries(SAMPLE)))
        if index.match_many(shape.documents(), threads=1).num_rows <= MATCHES_MAX * DOCUMENTS * SAMPLE / COUNT:
            count -= 1
            yield shape


# --- those that were found to cost too much once ----------------------------------------------------------------------


def named_shapes() -> Iterator[Shape]:
    few, many, number = 2, IDS, 0
    schema = Schema(
        "item",
        (Field("@lang", few), Field("@code", many), Field("@n", number), Field("@m", number), Field("@x", 300)),
        (Field("lang", few), Field("code", many), Field("price", number), Field("y", 300)),
        (Field("meta/@lang", few), Field("meta/@code", many), Field("meta/@n", number)),
    )
    step = NUMBER_MAX / COUNT

    def shape(text: str) -> Shape:
        def values(random: Random, place: int) -> str:
            names = {"word": f"w{place}x", "low": f"{place * step:.2f}", "high": f"{(place + 0.1) * step:.2f}"}
            return text.format(
                **names, far=f"{NUMBER_MAX - 1 - place / COUNT:.6f}", x=f"w{place % 300}x", y=f"w{place // 300}x"
            )

        return Shape(schema, "{0}", (values,))

    common, rare = '@lang="w0x"', '@code="{word}"'
    yield shape(f"//item[{common}][{rare}]")
    yield shape(f"//item[{rare}][{common}]")
    yield shape(f"//item[{common} and {rare}]/@n")
    yield shape('//item[lang="w0x"][code="{word}"]')
    yield shape('//item[meta[@lang="w0x"][@code="{word}"]]')
    yield shape('//item[.//@lang="w0x"][.//code="{word}"]')
    yield shape('//item[contains(@lang, "w0")][contains(@code, "{word}")]')
    yield shape('//item[not(@lang="w1x")][@code="{word}"][not(@m="{word}")]')
    yield shape('//item[@x="{x}"][y="{y}"]')
    yield shape('//item[@lang="w0x" or @lang="w1x"][@code="{word}"]')
    yield shape(f"//item[{rare}][@n > {{low}}]")
    yield shape("//item[@n > {low}][@n < {high}]")
    yield shape('//item[price >= {low} and price <= {high}][@lang="w0x"]')
    yield shape("//item[@n > {far}]")
    yield shape("//item[@n > {low}][@m > {far}]")
    yield shape('//item[@code="{word}"][@x != "{word}"][y != "{word}"]')
    yield shape('//item[not(@lang)][not(@code="{word}")]')
    yield shape('//item[not(@lang)][@n > {low}][not(@code="{word}")]')
    yield shape("//item[meta/@code][meta/@n > {low} and meta/@n < {high}]")
    yield shape('//item[@lang="w0x"][starts-with(code, "{word}")]')
    yield shape('//item[3][@code="{word}"]')
    yield shape('//item[@code="{word}"][last()]')
    yield shape('//item[contains(code, "{word}")]')


# --- measuring -------------------------------------------------------------------------------------------------------


def build(queries: list[str], churn: bool) -> Index:
    index = Index()
    single = int(len(queries) * CHURN) if churn else 0
    index.add_many(as_table(queries[single:]))
    for place, query in enumerate(queries[:single]):
        index.add(f"n{place}", query)
        if place % 2:
            index.remove(f"s{place * 7}")
    return index


def measure_shape(report: Report, shape: Shape, count: int, passes: int, churn: bool) -> tuple[float, float]:
    """The ratio at the full number, and how it grew from a tenth of it."""
    documents, queries = shape.documents(), shape.queries(count)
    indexes = [build(queries[:size], churn) for size in (count // SMALLER, count)]
    rows = [index.match_many(documents, threads=1).num_rows for index in indexes]
    taken: list[list[Seconds]] = [[], [], []]
    for _ in range(passes):  # in turn, so that what else the machine does disturbs all alike
        taken[0].append(clock(lambda: parse_all(documents)))
        for place, index in enumerate(indexes):
            taken[place + 1].append(clock(lambda index=index: index.match_many(documents, threads=1)))  # type: ignore[misc]
    lxml, smaller, full = map(median, taken)
    ratio, growth = full.cpu / lxml.cpu, full.cpu / smaller.cpu
    example = shape.queries(2)[1].replace("|", "\\|")
    report.add(
        f"`{example}`{CHURNED if churn else ''}: {smaller.cpu / lxml.cpu:.2f}x at a tenth, grows {growth:.2f}x",
        f"{full.cpu / len(documents) * 1e6:.1f}",
        "µs/doc",
        lxml=f"{lxml.cpu / len(documents) * 1e6:.1f}",
        cpu=f"{ratio:.2f}x",
        wall=f"{full.wall / lxml.wall:.2f}x",
        matches=f"{rows[1] / len(documents):.1f}",
        bar=f"<= {RATIO_MAX}x, {GROWTH_MAX}x" if count == COUNT else "",
        met=ratio <= RATIO_MAX and growth <= GROWTH_MAX if count == COUNT else None,
    )
    return ratio, growth


def measure(report: Report, count: int = COUNT, shapes: int = RANDOM_SHAPES, passes: int = 7, seed: int = 1) -> None:
    report.note(f"{count:,} subscriptions a shape; {DOCUMENTS} documents of {ITEMS} items each")
    results = []
    for kind, drawn in (("named", named_shapes()), ("random", random_shapes(shapes, seed))):
        for number, shape in enumerate(drawn):
            results.append(measure_shape(report, shape, count, passes, churn=number % 2 == 1))
        report.figure(f"{kind} shapes so far", len(results), "")
    full = count == COUNT
    report.figure("the worst ratio to lxml (CPU)", max(r for r, _ in results), "x", bar=RATIO_MAX if full else None)
    report.figure("the worst growth", max(g for _, g in results), "x", bar=GROWTH_MAX if full else None)


def main(arguments: list[str]) -> int:
    options, report = options_of("shapes", __doc__.partition("\n")[0], arguments)
    if options.quick:
        measure(report, count=COUNT // 10, shapes=10, passes=3)
    else:
        measure(report)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
