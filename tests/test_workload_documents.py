"""Generated documents: valid whatever the settings, of the requested size and shape, repeatable."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from oracles.dtd_validation import HUGE, grammar_of, loadable, validate
from test_dtd import SHOP_DTD

from treecast import DocumentError, LimitError
from treecast.document import read
from treecast.workload import DocumentSettings, NumberRange, Schema, Values, generate_documents

pytestmark = pytest.mark.house

SHIPPED = {
    name: resources.files("treecast.workload").joinpath(f"{name}.dtd").read_text("utf-8")
    for name in ("news", "records")
}

# What makes validity hard.
HARD = {
    "shop": SHOP_DTD,
    "references": """<!ELEMENT a (b*)> <!ELEMENT b (c?)> <!ATTLIST b to IDREFS #REQUIRED more IDREF #IMPLIED>
        <!ELEMENT c EMPTY> <!ATTLIST c me ID #IMPLIED>""",
    "no identifiers": "<!ELEMENT a (b | c)*> <!ELEMENT b EMPTY> <!ATTLIST b r IDREF #REQUIRED> <!ELEMENT c (#PCDATA)>",
    "entities": """<!NOTATION gif SYSTEM "g"> <!ENTITY one SYSTEM "1.gif" NDATA gif> <!ENTITY two SYSTEM "2" NDATA gif>
        <!ELEMENT a (b+)> <!ELEMENT b (#PCDATA)>
        <!ATTLIST b e ENTITY #REQUIRED es ENTITIES #IMPLIED n NOTATION (gif) #REQUIRED>""",
    "no entities": "<!ELEMENT a (b | c)+> <!ELEMENT b EMPTY> <!ATTLIST b e ENTITY #REQUIRED> <!ELEMENT c EMPTY>",
    "any": "<!ELEMENT a ANY> <!ELEMENT b (a, c)> <!ELEMENT c EMPTY> <!ELEMENT d (#PCDATA | b)*>",
    "fixed": """<!ELEMENT a (b*)> <!ELEMENT b EMPTY> <!ATTLIST b f CDATA #FIXED " a  &#34;'&#10; "
        g NMTOKENS #FIXED " x   y " h (p | q) #FIXED "q" i CDATA "d" j (1 | 2) #REQUIRED k NMTOKEN #REQUIRED>""",
    "must recurse": "<!ELEMENT a (b, (a | c))> <!ELEMENT b (c | (a, a))+> <!ELEMENT c (d?)> <!ELEMENT d (c | d)+>",
    "undeclared": "<!ELEMENT a (b?, (c | d), e*)> <!ELEMENT d (#PCDATA | f)*> <!ELEMENT e (g)> <!ELEMENT h EMPTY>",
    "prefixes": """<!ELEMENT p:a (q:b | c)*> <!ATTLIST p:a xmlns:p CDATA #FIXED "urn:p" xmlns:r CDATA #FIXED "urn:r">
        <!ELEMENT q:b (c?)> <!ATTLIST q:b xmlns:q CDATA #REQUIRED q:x CDATA #IMPLIED r:y CDATA #REQUIRED
        xmlns CDATA #FIXED "urn:d"> <!ELEMENT c (q:b)*> <!ATTLIST c q:z CDATA #IMPLIED xml:id ID #IMPLIED
        xml:space (default | preserve) "default">""",
    "prefix without a declaration": "<!ELEMENT p:a (p:b+)> <!ELEMENT p:b EMPTY> <!ATTLIST p:b o:x CDATA #REQUIRED>",
    "empty turns": "<!ELEMENT a ((b?, c?)* , ((d* | e?)+)+)> <!ELEMENT b EMPTY> <!ELEMENT c EMPTY> "
    "<!ELEMENT d EMPTY> <!ELEMENT e (a?)>",
    "chain": "".join(f"<!ELEMENT e{n} (e{n + 1})>" for n in range(300)) + "<!ELEMENT e300 (#PCDATA | e0)*>",
}

SETTINGS = [
    DocumentSettings(bytes_target=300, attributes=0.5),
    DocumentSettings(bytes_target=5000),
    DocumentSettings(bytes_target=1, depth_max=1, attributes=0),
    DocumentSettings(bytes_target=4000, depth_max=2, attributes=1),
    DocumentSettings(bytes_target=4000, depth_max=3, repeats_max=1, optional=0),
    DocumentSettings(bytes_target=None, bytes_max=20_000, depth_max=6, optional=1),
    DocumentSettings(bytes_target=3000, depth_max=40, recursion_max=0, skew=1.5),
    DocumentSettings(bytes_target=3000, recursion_max=2, values=Values(skew=1, text_words_max=2)),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
@pytest.mark.parametrize("name", [*SHIPPED, *HARD])
def test_documents_are_valid(name: str, settings: DocumentSettings) -> None:
    text = {**SHIPPED, **HARD}[name]
    schema = Schema.from_text(text, name=name)
    documents = list(generate_documents(schema, 12, settings, seed=5))
    if name != "undeclared":  # lxml's own check of what it cannot know
        validate(grammar_of(text, schema), documents, name)
    for document in documents:
        read(document)  # our own reader, namespaces and all


def test_undeclared_elements_are_avoided() -> None:
    text = HARD["undeclared"]
    documents = b"".join(generate_documents(Schema.from_text(text), 50, DocumentSettings(bytes_target=500)))
    assert set(re.findall(rb"<(\w)", documents)) == {b"a", b"d"}


def test_real_dtds_give_valid_documents(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    """Every DTD of the data directory that lxml can load; tests/long/test_full_workload.py draws more."""
    if data_directory is None:
        leave_out("documents of DTDs in use")
        return
    paths = loadable(data_directory / "dtd")
    assert len(paths) > 20
    for path in paths:
        schema = Schema.from_dtd(path)
        grammar = grammar_of(path, schema)
        for settings in SETTINGS[1:4]:
            assert len(validate(grammar, generate_documents(schema, 3, settings, seed=2), path.name)) == 3


# Size and shape.


@pytest.mark.parametrize("bytes_target", [5_000, 30_000, 300_000])
@pytest.mark.parametrize("name", list(SHIPPED))
def test_documents_have_the_requested_size(name: str, bytes_target: int) -> None:
    count = 60 if bytes_target < 100_000 else 5
    settings = DocumentSettings(bytes_target=bytes_target, depth_max=8)
    documents = list(generate_documents(Schema.shipped(name), count, settings, seed=3))
    assert len(set(documents)) == count
    assert 0.8 * bytes_target < sum(map(len, documents)) / count < 1.2 * bytes_target


def test_without_a_target_the_limit_ends_growing_documents() -> None:
    settings = DocumentSettings(bytes_target=None, bytes_max=100_000, depth_max=30, repeats_max=9, optional=1)
    sizes = [len(document) for document in generate_documents(Schema.news(), 8, settings)]
    assert 10_000 < max(sizes) < 300_000


def depths(documents: Sequence[bytes]) -> list[int]:
    return [max(len(list(e.iterancestors())) for e in etree.fromstring(d, HUGE).iter()) + 1 for d in documents]


@pytest.mark.parametrize("depth_max", [5, 8, 20, 100])
def test_documents_have_the_requested_depth(depth_max: int) -> None:
    settings = DocumentSettings(bytes_target=20_000, depth_max=depth_max, repeats_max=2)
    documents = list(generate_documents(Schema.news(), 30, settings, seed=3))
    # Content models must be finished: the limit may be passed by what they require.
    assert min(depth_max, 20) - 2 <= max(depths(documents)) <= depth_max + 2


def test_a_limit_that_python_has_too() -> None:
    text = "<!ELEMENT a ((((a)))?)>"
    settings = DocumentSettings(bytes_target=100_000, depth_max=512, optional=1)
    assert depths(list(generate_documents(Schema.from_text(text), 1, settings))) == [512]
    chain = "".join(f"<!ELEMENT e{n} (e{n + 1})>" for n in range(600)) + "<!ELEMENT e600 EMPTY>"
    with pytest.raises(LimitError, match="has 601 levels or more"):
        generate_documents(Schema.from_text(chain), 1)


def counts(schema: Schema, name: str, settings: DocumentSettings, documents: int = 2000) -> Counter[int]:
    drawn = generate_documents(schema, documents, settings, seed=11)
    return Counter(document.count(f"<{name}".encode()) for document in drawn)


def test_repeats() -> None:
    schema = Schema.from_text("<!ELEMENT a (b*, c+)> <!ELEMENT b EMPTY> <!ELEMENT c EMPTY>")
    settings = DocumentSettings(bytes_target=None, repeats_max=3)
    found = counts(schema, "b/", settings)
    assert set(found) == {0, 1, 2, 3}
    assert all(400 < number < 600 for number in found.values())
    found = counts(schema, "c/", settings)
    assert set(found) == {1, 2, 3}
    assert all(550 < number < 790 for number in found.values())


@pytest.mark.parametrize("optional", [0, 0.25, 0.6, 1])
def test_optional_parts(optional: float) -> None:
    schema = Schema.from_text("<!ELEMENT a (b?, (c, c)?)> <!ELEMENT b EMPTY> <!ELEMENT c EMPTY>")
    settings = DocumentSettings(bytes_target=None, optional=optional)
    for name, many in (("b", 1), ("c", 2)):
        assert counts(schema, name, settings)[many] == pytest.approx(2000 * optional, abs=90)


@pytest.mark.parametrize("model", ["(b | c | d)", "(#PCDATA | b | c | d)*"])
@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        ({}, (1 / 3, 1 / 3, 1 / 3)),
        ({"skew": 1.0}, (6 / 11, 3 / 11, 2 / 11)),
        ({"skew": 2.0}, (36 / 49, 9 / 49, 4 / 49)),
        ({"weights": {"b": 0, "d": 3}}, (0, 1 / 4, 3 / 4)),
        ({"weights": {"d": 3}, "skew": 1.0}, (6 / 15, 3 / 15, 6 / 15)),
    ],
)
def test_choices(model: str, settings: dict[str, Any], shares: tuple[float, ...]) -> None:
    schema = Schema.from_text(f"<!ELEMENT a {model}> <!ELEMENT b EMPTY> <!ELEMENT c EMPTY> <!ELEMENT d EMPTY>")
    drawn = b"".join(generate_documents(schema, 2000, DocumentSettings(bytes_target=None, **settings), seed=7))
    found = [drawn.count(f"<{name}/>".encode()) for name in "bcd"]
    for number, share in zip(found, shares, strict=True):
        assert number / sum(found) == pytest.approx(share, abs=0.04)


def test_recursion_limit() -> None:
    def own_ancestors(settings: DocumentSettings) -> int:
        documents = generate_documents(Schema.news(), 30, settings, seed=1)
        return max(
            sum(1 for above in element.iterancestors() if above.tag == element.tag)
            for document in documents
            for element in etree.fromstring(document).iter()
        )

    deep = {"bytes_target": 15_000, "depth_max": 25}
    assert own_ancestors(DocumentSettings(**deep)) > 2  # type: ignore[arg-type]
    assert own_ancestors(DocumentSettings(**deep, recursion_max=1)) == 1  # type: ignore[arg-type]
    assert own_ancestors(DocumentSettings(**deep, recursion_max=0)) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("attributes", [0, 0.3, 1])
def test_attributes(attributes: float) -> None:
    schema = Schema.from_text("<!ELEMENT a EMPTY> <!ATTLIST a b CDATA #IMPLIED c CDATA #REQUIRED d (x | y) 'x'>")
    drawn = b"".join(generate_documents(schema, 1000, DocumentSettings(attributes=attributes), seed=4))
    assert drawn.count(b' c="') == 1000
    for name in "bd":
        assert drawn.count(f' {name}="'.encode()) == pytest.approx(1000 * attributes, abs=60)


# Values.

VALUED = "<!ELEMENT a (b, c)> <!ELEMENT b (#PCDATA)> <!ELEMENT c (#PCDATA)> <!ATTLIST c n NMTOKEN #REQUIRED>"


def drawn_values(values: Values, pattern: str, text: str = VALUED) -> Counter[str]:
    schema = Schema.from_text(text)
    documents = generate_documents(schema, 3000, DocumentSettings(values=values), seed=2)
    return Counter(re.search(pattern, document.decode())[1] for document in documents)  # type: ignore[index]


def test_values_from_lists_and_ranges() -> None:
    sources: dict[str, Any] = {"b": ("x & <y>", 'quo"te'), "@n": NumberRange(1, 4), "*": NumberRange(0.5, 0.75, 2)}
    values = Values(sources)
    assert drawn_values(values, "<b>(.*)</b>").keys() == {"x &amp; &lt;y&gt;", "quo&quot;te"}
    found = drawn_values(values, ' n="(.*)"')
    assert found.keys() == {"1", "2", "3", "4"}
    assert all(650 < number < 850 for number in found.values())
    assert drawn_values(values, "<c.*>(.*)</c>").keys() == {f"0.{n}" for n in range(50, 76)}
    assert drawn_values(Values({"c/@n": ("only",)}), ' n="(.*)"') == {"only": 3000}
    assert drawn_values(Values({"@*": NumberRange(-2, -1)}), ' n="(.*)"').keys() == {"-1", "-2"}


def test_values_are_skewed() -> None:
    found = drawn_values(Values({"b": ("p", "q", "r")}, skew=1), "<b>(.*)</b>")
    for value, share in (("p", 6 / 11), ("q", 3 / 11), ("r", 2 / 11)):
        assert found[value] / 3000 == pytest.approx(share, abs=0.04)
    found = drawn_values(Values({"@n": NumberRange(1, 10)}, skew=2), ' n="(.*)"')
    assert found["1"] / 3000 == pytest.approx(0.645, abs=0.04)
    for skew in (0.5, 1, 2):  # a long range, by the integral: compare with a table of all ranks
        found = drawn_values(Values({"@n": NumberRange(1, 1_000_000)}, skew=skew), ' n="(.*)"')
        weights = [rank**-skew for rank in range(1, 1_000_001)]
        below = sum(found[str(number)] for number in range(1, 1001)) / 3000
        assert below == pytest.approx(sum(weights[:1000]) / sum(weights), abs=0.06)
    even = Counter(drawn_values(Values(), "<b>(.*)</b>").values())
    assert max(even) < 15
    assert max(drawn_values(Values(skew=1), "<b>(.*)</b>").values()) > 200


def test_texts_have_the_requested_length() -> None:
    lengths = Counter(len(text.split()) for text in drawn_values(Values(text_words_max=3), "<b>(.*)</b>").elements())
    assert set(lengths) == {1, 2, 3, 4}  # a tenth of them has a sign, a price or a year beside the words
    assert lengths[4] < 200


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"@n": ("a b",)}, "not allow the value 'a b' for 'n' of 'c'"),
        ({"@k": ("x", "z")}, "not allow the value 'z' for 'k' of 'c'"),
    ],
)
def test_values_that_the_dtd_forbids(sources: dict[str, Any], message: str) -> None:
    schema = Schema.from_text(VALUED + "<!ATTLIST c k (x | y) #IMPLIED>")
    with pytest.raises(DocumentError, match=message) as caught:
        generate_documents(schema, 1, DocumentSettings(values=Values(sources)))
    assert caught.value.code == "TC284"


# Repeatable, one by one, from several schemas.


def test_documents_do_not_depend_on_their_number() -> None:
    schema = Schema.news()
    ten = list(generate_documents(schema, 10, seed=4))
    assert list(generate_documents(schema, 3, seed=4, start=6)) == ten[6:9]
    assert next(generate_documents(schema, 1, seed=5)) not in ten
    assert list(generate_documents(schema, 0)) == []


def test_several_schemas_take_turns() -> None:
    schemas = [Schema.news(), Schema.records(), Schema.from_text(SHOP_DTD)]
    settings = DocumentSettings(bytes_target=400)
    alone = [list(generate_documents(schema, 4, settings, seed=4)) for schema in schemas]
    together = list(generate_documents(schemas, 12, settings, seed=4))
    assert together == [alone[place % 3][place // 3] for place in range(12)]
    assert list(generate_documents(schemas, 4, settings, seed=4, start=5)) == together[5:9]


def test_schemas_have_their_weights() -> None:
    schemas = [Schema.news(), Schema.records(), Schema.from_text(SHOP_DTD)]
    settings = DocumentSettings(bytes_target=300)
    drawn = generate_documents(schemas, 100, settings, weights=[7, 2, 1])
    roots = Counter(etree.fromstring(document).tag for document in drawn)
    assert roots == {"news": 70, "trades": 20, "shop": 10}


def test_the_hash_seed_does_not_matter() -> None:
    program = (
        "import hashlib\n"
        "from treecast.workload import *\n"
        "schemas = [Schema.news(), Schema.records()]\n"
        "documents = b''.join(generate_documents(schemas, 6, DocumentSettings(recursion_max=1), seed=9))\n"
        "settings = QuerySettings(predicates=1, nested=1, selectivity=0.2)\n"
        "queries = ''.join(generate_queries(schemas, 500, settings, seed=9))\n"
        "print(hashlib.sha256(documents + queries.encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"bytes_target": 0}, {"bytes_max": 0}, {"depth_max": 0}, {"depth_max": 513}, {"repeats_max": 0},
        {"attributes": 1.5}, {"optional": -1}, {"recursion_max": -1}, {"skew": -1}, {"skew": float("nan")},
        {"weights": {"a": -1}}, {"weights": {"a": float("inf")}},
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at least|probabilities|a skew is|not negative"):
        DocumentSettings(**settings)


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"a": ()}, "not empty"), ({"a": "xyz"}, "a list"), ({"a": ("\0",)}, "no XML document"),
    ],
)  # fmt: skip
def test_invalid_values_are_refused(sources: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Values(sources)


def test_missing_things_are_refused() -> None:
    for settings in (DocumentSettings(weights={"prize": 2}), DocumentSettings(values=Values({"@prize": ("1",)}))):
        with pytest.raises(ValueError, match="prize"):
            generate_documents(Schema.news(), 1, settings)
    with pytest.raises(ValueError, match="is no range"):
        NumberRange(5, 1)
    with pytest.raises(ValueError, match="decimals"):
        NumberRange(1, 5, 10)
    with pytest.raises(ValueError, match="text_words_max"):
        Values(text_words_max=0)
    with pytest.raises(ValueError, match="not negative"):
        generate_documents(Schema.news(), -1)
    for weights in ([1], [1, -1], [0, 0]):
        with pytest.raises(ValueError, match="one weight for every schema"):
            generate_documents([Schema.news(), Schema.records()], 1, weights=weights)
    with pytest.raises(ValueError, match="at least one schema"):
        generate_documents([], 1)


def test_references_that_can_never_be_met_are_an_error() -> None:
    text = "<!ELEMENT a (b+)> <!ELEMENT b (c)> <!ELEMENT c (d?)> <!ATTLIST b r IDREF #REQUIRED> <!ELEMENT d EMPTY> "
    schema = Schema.from_text(text + "<!ATTLIST d i ID #IMPLIED>")
    with pytest.raises(DocumentError, match="find no identifier") as caught:
        next(generate_documents(schema, 1, DocumentSettings(bytes_target=None, optional=0)))
    assert caught.value.code == "TC282"


@pytest.mark.parametrize(
    "dtd",
    [
        "".join(f"<!ELEMENT e{i} (e{i + 1}, e{i + 1})>" for i in range(60)) + "<!ELEMENT e60 EMPTY>",
        "".join(f"<!ELEMENT e{i} (e{i + 1}+, (e{i + 1} | e{i + 1}), e{i + 1}*)>" for i in range(40))
        + "<!ELEMENT e40 ANY>",
        f"<!ELEMENT a (b, b, b, b, b, b, b, b, b)><!ELEMENT b EMPTY><!ATTLIST b c CDATA #FIXED '{'x' * 1_000_000}'>",
    ],
    ids=["twice", "more", "value"],
)
def test_what_doubles_level_after_level_is_refused(dtd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treecast.workload.document_writer.TAGS_BYTES_MAX", 1 << 16)
    settings = DocumentSettings(bytes_target=1000, attributes=1.0)
    with pytest.raises(LimitError, match="TC380 DTD: the tags of a document of this DTD have more than 65,536"):
        list(generate_documents(Schema.from_text(dtd, root=re.findall("ELEMENT (\\w+)", dtd)[0]), 1, settings))
