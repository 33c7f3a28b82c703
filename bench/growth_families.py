"""Families for bench/growth.py: the same kind of work at any size. `prepare(n)` makes the input and returns the action.

Preparation is not measured. An action starts from a fresh state each time, so no pass profits from another.
"""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from treecast import Index, Limits, QueryError, parse, read
from treecast.inputs.records import records

Action = Callable[[], object]
WIDE = Limits(depth_max=65_535, attributes_max=1 << 24, attribute_bytes_max=1 << 28, document_bytes_max=1 << 30)


@dataclass(frozen=True)
class Family:
    """One kind of work; `size` is its n, of which 2n, 4n and 8n follow."""

    kind: str
    name: str
    size: int
    prepare: Callable[[int], Action]


FAMILIES: list[Family] = []


def family(kind: str, size: int) -> Callable[[Callable[[int], Action]], Callable[[int], Action]]:
    """Register `prepare`; its first line of documentation is the name."""

    def register(prepare: Callable[[int], Action]) -> Callable[[int], Action]:
        name = (prepare.__doc__ or "").partition("\n")[0].rstrip(".")
        FAMILIES.append(Family(kind, name, size, prepare))
        return prepare

    return register


def reading(document: bytes) -> Action:
    return lambda: read(document, limits=WIDE)


def matching(document: bytes, *queries: str) -> Action:
    """An index without caches of an earlier pass."""
    index = Index(limits=WIDE)
    for number, query in enumerate(queries):
        index.add(f"q{number}", query)
    return lambda: index.match(document)


def rendering(document: bytes, query: str) -> Action:
    """Raise the error of a refused delivery, so that its code is reported."""
    index = Index(limits=WIDE)
    index.add("q", query)

    def render() -> None:
        for delivery in index.render(document):
            if delivery.refused:
                raise delivery.refused

    return render


# -- documents


@family("documents", 20_000)
def siblings(n: int) -> Action:
    """Elements side by side."""
    return reading(b"<a>" + b"<b/>" * n + b"</a>")


@family("documents", 8_000)
def nested(n: int) -> Action:
    """Elements inside each other."""
    return reading(b"<a>" * n + b"</a>" * n)


@family("documents", 4_000)
def attributes(n: int) -> Action:
    """Attributes of one element."""
    return reading(b"<a " + b" ".join(b'a%d="v"' % i for i in range(n)) + b"/>")


@family("documents", 32_000)
def namespaces(n: int) -> Action:
    """Namespace declarations of one element, each used below it, up to the limit of names."""
    declared = b" ".join(b'xmlns:p%d="urn:%d"' % (i, i) for i in range(n))
    return reading(b"<a %s>%s</a>" % (declared, b"".join(b"<p%d:b/>" % i for i in range(n))))


@family("documents", 100_000)  # fewer fit into caches, and then growth is that of cache misses
def distinct_names(n: int) -> Action:
    """Distinct names, up to their limit."""
    return reading(b"<a>" + b"".join(b"<n%d/>" % i for i in range(n)) + b"</a>")


@family("documents", 100_000)
def local_names(n: int) -> Action:
    """Distinct local names, asked for by local-name(), up to the limit of names."""
    document = b"<a>" + b"".join(b"<n%d/>" % i for i in range(n)) + b"</a>"
    return matching(document, "//*[local-name()='n7'][2]")


@family("documents", 500_000)
def one_text(n: int) -> Action:
    """One text."""
    return reading(b"<a>" + b"x" * n + b"</a>")


@family("documents", 50_000)
def broken_text(n: int) -> Action:
    """Texts broken by comments and instructions."""
    return reading(b"<a>" + b"x<!--y-->z<?p?>" * n + b"</a>")


@family("documents", 50_000)
def references(n: int) -> Action:
    """Character references and CDATA sections."""
    return reading(b"<a>" + b"&#120;&amp;<![CDATA[y]]>" * n + b"</a>")


@family("documents", 500_000)
def long_attribute(n: int) -> Action:
    """One attribute value."""
    return reading(b'<a b="' + b"x&lt;" * (n // 5) + b'"/>')


# -- queries


@family("queries", 4)
def nested_first_items(n: int) -> Action:
    """contains(descendant::b[…]) with positions, in each other, on 31 elements."""
    query = "//b"
    for _ in range(n):
        query = f"//b[contains(descendant::{query[2:]}, 'z') or last()=999]"
    return matching(b"<a>" + b"<b>" * 30 + b"x" + b"</b>" * 30 + b"</a>", query)


@family("queries", 4)
def nested_predicates(n: int) -> Action:
    """Predicates of // inside each other, on 400 elements inside each other."""
    query = "c"
    for _ in range(n):
        query = f".//b[{query}]"
    return matching(b"<b>" * 400 + b"</b>" * 400, f"//b[{query}]")


@family("queries", 200_000)
def string_values(n: int) -> Action:
    """contains(., …) on text under 400 ancestors."""
    return matching(b"<b>" * 400 + b"xy" * n + b"</b>" * 400, "//*[contains(., 'zz')]", "//b[contains(., 'yq')]")


@family("queries", 200_000)
def first_string_values(n: int) -> Action:
    """contains(., …) beside a position, on text under 400 ancestors."""
    return matching(b"<b>" * 400 + b"xy" * n + b"</b>" * 400, "//b[contains(., 'zz') or last() = 99]")


@family("queries", 200_000)
def compared_string_values(n: int) -> Action:
    """Numbers and order of text under 400 ancestors."""
    return matching(b"<b>" * 400 + b"12" * n + b"</b>" * 400, "//b[. = 3]", "//b[. > 7]", "//b[. = 'x']")


@family("queries", 50)
def ancestors(n: int) -> Action:
    """contains(., …) on 200 KB of text under n ancestors."""
    return matching(b"<b>" * n + b"xy" * 100_000 + b"</b>" * n, "//*[contains(., 'zz')]", "//b[contains(., 'yq')]")


@family("queries", 500)
def literal(n: int) -> Action:
    """The literal of contains(), on 100 KB of text."""
    return matching(b"<a>" + b"ab" * 50_000 + b"</a>", f"//a[contains(., '{'ab' * n}c')]")


@family("queries", 10_000)
def nearly_the_literal(n: int) -> Action:
    """Text that is nearly one long literal again and again."""
    return matching(b"<a>" + (b"ab" * (n // 2) + b"b") * 4 + b"</a>", f"//a[contains(., '{'ab' * min(n, 16_000)}')]")


@family("queries", 20_000)
def literals_that_end_each_other(n: int) -> Action:
    """Text whose every letter ends 200 literals."""
    return matching(b"<a>" + b"a" * n + b"</a>", *(f"//a[contains(., '{'a' * size}')]" for size in range(1, 200)))


@family("queries", 8)
def alternatives(n: int) -> Action:
    """Operands of or in each of two predicates."""
    options = " or ".join(f"@x{i} = '{i}'" for i in range(n))
    return matching(b"<a/>", f"//a[{options}][{options.replace('x', 'y')}]")


@family("queries", 24)
def wildcard_chains(n: int) -> Action:
    """covers() of chains of //*, up to the limit of steps."""
    return lambda: parse("//*" * n + "//a").covers(parse("//*/*" * n + "//b//a"))


@family("queries", 8)
def negated_chains(n: int) -> Action:
    """covers() of chains of not() and //*, up to the limit of predicates."""
    negated = "".join(f"[not(.//*[.//x{i}])]" for i in range(n))
    return lambda: parse(f"//*{negated}").covers(parse("//*" * n + negated))


# -- transformations


@family("transformations", 250)
def ordered_pairs(n: int) -> Action:
    """Pairs of bindings, ordered by 20 keys, up to the limit of bindings."""
    keys = ", ".join(f"$a/k{i}" for i in range(20))
    document = b"<a>" + b"<x><k1>1</k1></x>" * n + b"</a>"
    return rendering(document, f"for $a in $msg//x, $b in $msg//x order by {keys} return <p>{{$b/k1}}</p>")


@family("transformations", 40)
def keys(n: int) -> Action:
    """Keys to order 10,000 pairs by."""
    names = ", ".join(f"$a/k{i}" for i in range(n))
    document = b"<a>" + b"<x><k1>1</k1></x>" * 100 + b"</a>"
    return rendering(document, f"for $a in $msg//x, $b in $msg//x order by {names} return <p/>")


@family("transformations", 400_000)
def condition_on_text(n: int) -> Action:
    """A condition on the text of elements inside each other."""
    document = b"<a>" * 100 + b"xy" * n + b"</a>" * 100
    return rendering(document, 'for $a in $msg//a return <r>{if (contains($a, "yz")) then "1" else "2"}</r>')


@family("transformations", 5_000)
def constructed(n: int) -> Action:
    """Constructed elements."""
    document = b"<a>" + b"<x><k>1</k></x>" * n + b"</a>"
    return rendering(document, "<all>{for $x in $msg//x where $x/k = 1 return <p>{$x/k}</p>}</all>")


@family("transformations", 5_000)
def steps(n: int) -> Action:
    """Elements that a list of steps edits."""
    document = b"<a>" + b"<x><k>1</k><d/></x>" * n + b"</a>"
    return rendering(document, "drop //d; rename //k to l; unwrap //x")


# -- ids


def add_many(ids: list[str], queries: list[str]) -> Action:
    table = pa.table({"id": ids, "query": queries})
    return lambda: Index().add_many(table)


@family("ids", 10_000)
def similar_ids(n: int) -> Action:
    """Ids that differ in their last characters only."""
    return add_many(["x" * 100 + str(i) for i in range(n)], ["/a/b"] * n)


@family("ids", 10_000)
def removed_and_added(n: int) -> Action:
    """Ids removed and added again."""
    ids = [str(i) for i in range(n)]

    def churn() -> None:
        index = Index()
        index.add_many([(id, f"/a/b{id}") for id in ids])
        for id in ids:
            index.remove(id)
            index.add(id, f"/a/b{id}")

    return churn


# -- archives and record files


@family("archives", 500)
def members(n: int) -> Action:
    """Members of a zip file, read as documents."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(n):
            archive.writestr(f"{i}.xml", b"<a><b/></a>")

    def read_members() -> None:
        with zipfile.ZipFile(buffer) as archive:
            for name in archive.namelist():
                read(archive.read(name))

    return read_members


@family("archives", 5_000)
def split_records(n: int) -> Action:
    """Records of one file."""
    file = b"<list>" + b"<item><k>1</k></item>" * n + b"</list>"
    return lambda: sum(1 for _ in records(io.BytesIO(file)))


@family("archives", 2_000)
def declared_records(n: int) -> Action:
    """Records below as many bytes of namespace declarations, up to the limit of their ratio."""
    declared = b" ".join(b'xmlns:p%d="urn:%d"' % (i, i) for i in range(n // 20))
    file = b"<list " + declared + b">" + b"<item/>" * n + b"</list>"

    def split() -> None:
        for record in records(io.BytesIO(file)):
            if record.error:
                raise record.error

    return split


# -- populations


@family("populations", 10_000)
def own_namespaces(n: int) -> Action:
    """Subscriptions with a namespace of their own each."""

    def add() -> None:
        index = Index()
        for i in range(n):
            index.add(str(i), "//p:a", namespaces={"p": f"urn:{i}"})

    return add


@family("populations", 10_000)
def shared_query(n: int) -> Action:
    """Subscriptions of one query, removed one by one."""
    index = Index()
    index.add_many([(str(i), "/a/b") for i in range(n)])
    order = list(range(n))
    random.Random(1).shuffle(order)

    def remove() -> None:
        for i in order:
            index.remove(str(i))

    return remove


@family("populations", 20_000)
def refused_additions(n: int) -> Action:
    """Additions that are refused."""
    index = Index()

    def add() -> None:
        for i in range(n):
            try:
                index.add(str(i), f"/a{i}/b{i}[unknown(c{i})]")
            except QueryError:
                continue

    return add


@family("populations", 5_000)
def literals(n: int) -> Action:
    """Literals, and a document that has all of them."""
    index = Index()
    index.add_many([(str(i), f'//a[contains(., "word{i}")]') for i in range(n)])
    document = b"<r>" + b"".join(b"<a>word%d</a>" % i for i in range(n)) + b"</r>"
    return lambda: index.match_many([document])


def items(count: int) -> bytes:
    return b"<r>" + b"".join(b'<item lang="en" code="C%d"><n>%d</n></item>' % (i, i) for i in range(count)) + b"</r>"


def population(query: Callable[[int], str]) -> Callable[[int], Action]:
    """40 items against n subscriptions; growth here is over subscriptions, and far below linear."""

    def prepare(n: int) -> Action:
        index = Index()
        index.add_many([(str(i), query(i)) for i in range(n)])
        documents = [items(40)] * 50
        index.match_many(documents[:2], threads=1)
        return lambda: index.match_many(documents, threads=1)

    return prepare


for _name, _query in {
    "A common test before a rare one": lambda i: f'//item[@lang="en"][@code="C{i}"]',
    "A rare test before a common one": lambda i: f'//item[@code="C{i}"][@lang="en"]',
    "A common value and a rare one of children": lambda i: f'//item[@lang="en" and n="{i}"]',
    "Rare ranges": lambda i: f"//item[n > {1000 + i}]",
    "Rare tests alone": lambda i: f'//item[@code="C{i}"]',
}.items():
    FAMILIES.append(Family("populations", _name, 10_000, population(_query)))
