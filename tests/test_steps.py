"""Lists of steps: what each step means, byte by byte; and drawn lists on drawn documents against lxml."""

from __future__ import annotations

from random import Random

import pytest
from generators.paths_and_documents import Vocabulary
from generators.step_lists import (
    ENTITIES,
    DocumentDrawer,
    ListDrawer,
    accepted,
    restructure,
    restructure_counting,
    run_round,
)
from lxml import etree
from oracles.step_lists import StepList, select
from support.sanitized import fewer

from treecast import Index, QueryError, _native

CASES = [
    # drop: elements with all that is in them, attributes with the white space before, texts
    ("<a><b>1</b>x<c/></a>", "drop //b", "<a>x<c/></a>"),
    ("<a><b><b/></b></a>", "drop //b", "<a></a>"),
    ("<a  x='1'\n y=\"2\"/>", "drop /a/@x", '<a\n y="2"/>'),
    ("<a  x='1'\n y=\"2\" />", "drop //@*", "<a />"),
    ("<a xmlns:p='u' p:x='1' x='2'/>", "drop /a/@x", "<a xmlns:p='u' p:x='1'/>"),
    ("<a>1<b>2</b>3</a>", "drop /a/text()", "<a><b>2</b></a>"),
    ("<a>1<!-- c -->2<?p?>3</a>", "drop /a/text()[2]", "<a>1<!-- c --><?p?>3</a>"),
    ("<a>x<![CDATA[<b/>]]>&amp;y<b/>z</a>", "drop /a/text()[1]", "<a><b/>z</a>"),
    ("<a><b>1</b></a>", "drop /a", ""),
    ("<a><b>1</b></a>", "drop //c", "<a><b>1</b></a>"),
    ("<a><b/><c/><d/></a>", "drop //b, //d", "<a><c/></a>"),
    ("<a><b x='1'/><b x='2'/></a>", "drop //b[@x='1'] | //b/@x", "<a><b/></a>"),
    # what comes together must not become markup, nor two line ends one
    ("<a>]]<b/>></a>", "drop //b", "<a>]]&gt;</a>"),
    ("<a>]<b/>]<b/>></a>", "drop //b", "<a>]]&gt;</a>"),
    ("<a>]<b/>]></a>", "unwrap //b", "<a>]]&gt;</a>"),
    ("<a>\r<b/>\n</a>", "drop //b", "<a>\r&#10;</a>"),
    # keep: the items with all that is in them, and the tags round them
    ("<a x='1'>t<b>u<c>v</c></b><d/></a>", "keep //c", "<a x='1'><b><c>v</c></b></a>"),
    ("<a>t<b y='1'>u</b><!-- c --><b/></a>", "keep //b", "<a><b y='1'>u</b><b/></a>"),
    ("<a>t<b y='1' z='2'>u</b></a>", "keep //@y", "<a><b y='1' z='2'></b></a>"),
    ("<a>t<b>u<c/>v</b></a>", "keep //b/text()[2]", "<a><b>v</b></a>"),
    ("<a>t<!-- c --><b/></a>", "keep /a", "<a>t<!-- c --><b/></a>"),
    ("<a><b/></a>", "keep //c", ""),
    ("<a><b><c/></b>t</a>", "keep //b, //c, //text()", "<a><b><c/></b>t</a>"),
    # rename
    ("<a><b>1</b><b/></a>", "rename //b to c", "<a><c>1</c><c/></a>"),
    ("<a ><b >1</b ></a\n>", "rename //* to longer", "<longer ><longer >1</longer ></longer\n>"),
    ("<a x = '1' y='2'/>", "rename //@x to z", "<a z = '1' y='2'/>"),
    ("<a lang='en'/>", "rename //@lang to xml:lang", "<a xml:lang='en'/>"),
    ("<a x='1'/>", "rename //@x to x", "<a x='1'/>"),
    ("<a x='1'><b/></a>", "rename //b, //@x to c", "<a c='1'><c/></a>"),
    # unwrap
    ("<a>1<b>2<c/>3</b>4</a>", "unwrap //b", "<a>12<c/>34</a>"),
    ("<a><b><b/></b><!-- c --></a>", "unwrap //b", "<a><!-- c --></a>"),
    ("<a><b x='1'/></a>", "unwrap /a", "<a><b x='1'/></a>"),
    ("<a><b><!-- c --><?p?></b></a>", "unwrap //*", "<a><!-- c --><?p?></a>"),
    # one after the other
    ("<a><b><c/></b></a>", "rename //b to c; drop /a/c/c", "<a><c></c></a>"),
    ("<a>1<b/>2</a>", "drop //b; drop /a[text()='12']/text()", "<a></a>"),
    ("<a>1<b/>2</a>", "drop //b; drop /a[text()='1']/text()", "<a>12</a>"),
    ("<a><i><b/></i><b/></a>", "unwrap //i; drop /a/b[2]", "<a><b/></a>"),
    ("<a/>", "drop /a; rename /a to b; keep /b", ""),
    # from: each element that it selects is a tree of its own
    ("<n><a k='1'>x</a><b/><a k='2'>y</a></n>", "from //a drop /a/@k", "<a>x</a><a>y</a>"),
    ("<n><a><a/></a></n>", "from //a rename /a/a to b", "<a><b/></a><a/>"),
    ("<n><a><b/></a><a><b/><b/></a></n>", "from /n/a drop /descendant::b[2]", "<a><b/></a><a><b/></a>"),
    ("<n><a/><b/></n>", "from /n/* keep /a", "<a/>"),
    ("<n><a/></n>", "from //c drop //a", ""),
    ("<n/>", "from /n rename /n to m", "<m/>"),
]


@pytest.mark.parametrize(("document", "steps", "expected"), CASES)
def test_each_step(document: str, steps: str, expected: str) -> None:
    assert restructure(document.encode(), steps) == [expected.encode()]


NAMESPACED = [
    # what an element declares goes to the children that saw it
    ("<a><b xmlns:p='u'><p:c/>t<d/></b></a>", "unwrap //b", '<a><p:c xmlns:p="u"/>t<d xmlns:p="u"/></a>'),
    (
        "<a xmlns='u'><b xmlns=''><c/></b><d/></a>",
        "unwrap //*[local-name()='b']",
        "<a xmlns='u'><c xmlns=\"\"/><d/></a>",
    ),
    ("<a><b xmlns='u'><c/></b></a>", "unwrap //y:b", '<a><c xmlns="u"/></a>'),
    ("<a><b xmlns:p='u'><c xmlns:p='v'/></b></a>", "unwrap //b", "<a><c xmlns:p='v'/></a>"),
    ("<a xmlns:p='u'><b><p:c/></b></a>", "unwrap //b", "<a xmlns:p='u'><p:c/></a>"),
    # a new name without prefix has no namespace; children keep theirs
    ("<a xmlns='u'><b/></a>", "rename /y:a to c", '<c xmlns=""><b xmlns="u"/></c>'),
    ("<p:a xmlns:p='u'><p:b/></p:a>", "rename /y:a to c", "<c xmlns:p='u'><p:b/></c>"),
    (
        "<a xmlns='u'><b x='1'><d/></b></a>",
        "rename //y:b to c",
        "<a xmlns='u'><c xmlns=\"\" x='1'><d xmlns=\"u\"/></c></a>",
    ),
    ("<a xmlns='u'><b><b/></b></a>", "rename //y:* to c", '<c xmlns=""><c><c/></c></c>'),
    # one with a prefix has that of the subscription
    ("<a><b/></a>", "rename //b to y:c", '<a xmlns:y="u"><y:c/></a>'),
    ("<a><b z='1'/></a>", "rename //@z to y:z", "<a xmlns:y=\"u\"><b y:z='1'/></a>"),
    ("<a><b xmlns:y='u'/></a>", "rename //b to y:c", "<a><y:c xmlns:y='u'/></a>"),
    ("<a><b xmlns:y='v'/></a>", "rename //b to y:c", "<a><y1:c xmlns:y1=\"u\" xmlns:y='v'/></a>"),
    ("<a><b xmlns:y='v' xmlns:z='u'/></a>", "rename //b to y:c", "<a><z:c xmlns:y='v' xmlns:z='u'/></a>"),
    ("<a><b xmlns:y='v'/><d/></a>", "rename //d to y:c", "<a><b xmlns:y='v'/><y:c xmlns:y=\"u\"/></a>"),
    ("<a xmlns='u'/>", "rename //y:a to y:a", "<y:a xmlns:y=\"u\" xmlns='u'/>"),
    # trees of their own bring along what they see
    ("<a xmlns:p='u' xmlns='v'><b p:x='1'/></a>", "from //w:b drop //y:c", '<b xmlns="v" xmlns:p="u" p:x=\'1\'/>'),
]


@pytest.mark.parametrize(("document", "steps", "expected"), NAMESPACED)
def test_namespaces_are_put_right(document: str, steps: str, expected: str) -> None:
    assert restructure(document.encode(), steps, namespaces=[("y", "u"), ("w", "v")]) == [expected.encode()]


def test_unprefixed_new_names_have_the_default_namespace_of_the_subscription() -> None:
    cases = [
        ("<p:a xmlns:p='u'><b/></p:a>", "rename /a to c", '<c xmlns="u" xmlns:p=\'u\'><b xmlns=""/></c>'),
        ("<a xmlns='u'><b/></a>", "rename //b to c", "<a xmlns='u'><c/></a>"),
        ("<p:a xmlns:p='u' x='1'/>", "rename //@x to c", "<p:a xmlns:p='u' c='1'/>"),
    ]
    for document, steps, expected in cases:
        assert restructure(document.encode(), steps, namespaces=[("", "u")]) == [expected.encode()]


@pytest.mark.parametrize(
    ("document", "steps"),
    [
        ("<a x='1' y='2'/>", "rename //@x to y"),
        ("<a x='1' y='2'/>", "rename //@* to z"),
        ("<a xmlns:p='u' p:y='1' x='2'/>", "rename //@x to q:y"),
        ("<a><b x='1'/><b x='1' y='2'/></a>", "drop //c; rename //@x to y"),
    ],
)
def test_two_attributes_of_one_name_are_refused(document: str, steps: str) -> None:
    refused, fine = restructure(document.encode(), steps, "drop //@*", namespaces=[("q", "u")])
    assert isinstance(refused, QueryError)
    assert refused.code == "TC119"
    assert refused.position == steps.index("rename")
    assert b"=" not in fine.replace(b"xmlns:p='u'", b"")


def test_entities_of_the_caller_stand_in_the_payload_as_text() -> None:
    entities = _native.Entities(ENTITIES)
    payloads = restructure(b"<a x='&ent;'>&one;<b/>&ent;</a>", "drop //b", "drop //c", "drop //@x", entities=entities)
    for payload in payloads:
        root = etree.fromstring(payload)
        assert "".join(root.itertext()) == "1" + ENTITIES["ent"]
        assert root.get("x") in (ENTITIES["ent"], None)


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "windows-1252"])
def test_payloads_are_utf8(encoding: str) -> None:
    document = f'<?xml version="1.0" encoding="{encoding}"?><!-- é --><ä><b/>é</ä>'.encode(encoding)
    assert restructure(document, "drop //b", "rename //b to ö") == ["<ä>é</ä>".encode(), "<ä><ö/>é</ä>".encode()]


# --- sharing and limits ----------------------------------------------------------------------------------------------

DOCUMENT = b"<a>" + b"<b><c>text</c><d x='1'/></b>" * 20 + b"</a>"


def test_equal_first_steps_are_applied_once() -> None:
    lists = [f"drop //c; rename //d to e; unwrap //b; rename //e to e{place}" for place in range(50)]
    payloads, applied = restructure_counting(DOCUMENT, *lists)
    assert applied == 3 + 50
    alone, without = restructure_counting(DOCUMENT, *lists, share=False)
    assert without == 4 * 50
    assert payloads == alone
    assert payloads[7] == b"<a>" + b"<e7 x='1'/>" * 20 + b"</a>"


def test_lists_that_start_elsewhere_share_nothing() -> None:
    payloads, applied = restructure_counting(
        DOCUMENT, "drop //c", "from //b drop //c", "from //b drop //c; drop //d", "drop //c"
    )
    assert applied == 3
    assert payloads[0] == payloads[3] != payloads[1]
    assert payloads[2] == b"<b></b>" * 20


def test_a_name_is_part_of_a_step() -> None:
    first, second = restructure(b"<a/>", "rename /a to b; drop //c", "rename /a to c; drop //b")
    assert (first, second) == (b"<b/>", b"<c/>")


@pytest.mark.parametrize("kept_bytes_max", [0, 500, 3_000])
def test_with_little_memory_the_answers_stay(kept_bytes_max: int) -> None:
    lists = [
        f"{start}rename //b to b{n}; drop //c; drop //x; drop //d" for start in ("", "from /a/b ") for n in (1, 2, 1, 3)
    ]
    payloads, applied = restructure_counting(DOCUMENT, *lists, kept_bytes_max=kept_bytes_max)
    assert payloads == restructure(DOCUMENT, *lists)
    assert applied >= 24


def test_payloads_over_the_limit_are_not_made() -> None:
    assert restructure(DOCUMENT, "drop //q", "drop //b", bytes_max=100) == [None, b"<a></a>"]
    assert restructure(DOCUMENT, "drop //b", bytes_max=7) == [b"<a></a>"]
    assert restructure(DOCUMENT, "drop //b", bytes_max=6) == [None]


def test_states_on_the_way_have_a_limit_too() -> None:
    longer = f"rename //b to {'n' * 1000}"
    assert restructure(DOCUMENT, f"{longer}; drop /a/*", "drop /a/*", bytes_max=100) == [None, b"<a></a>"]
    nested = b"<b>" * 100 + b"</b>" * 100
    assert restructure(nested, "from //b drop //b", bytes_max=100) == [None]


def test_many_namespaces_unwrapped_over_many_children() -> None:
    declared = " ".join(f"xmlns:p{number}='urn:{number}'" for number in range(200))
    document = f"<a><b {declared}>{'<c/>' * 1000}</b></a>".encode()
    assert restructure(document, "unwrap //b; drop //c", bytes_max=10_000) == [None]
    assert restructure(document, "unwrap //b; drop //c") == [b"<a></a>"]


# --- drawn -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_drawn_lists_equal_the_oracle(part: int) -> None:
    pairs = filled = 0
    for number in range(fewer(150)):
        drawn, left = run_round(f"steps/{part}/{number}")
        pairs, filled = pairs + drawn, filled + left
    assert pairs == fewer(150) * 4
    assert filled > fewer(200)


def test_an_index_delivers_what_the_steps_leave() -> None:
    """Every list without `from`, and of the others those that have a tree to start from."""
    delivered = 0
    for number in range(60):
        random = Random(f"delivered/{number}")
        document = DocumentDrawer(random, namespaces=True).document().encode()
        words = Vocabulary.tiny(random, namespaces=True)
        lists = {f"s{place}": steps for place in range(5) if accepted(steps := ListDrawer(random, words).steps())}
        index = Index()
        for name, steps in lists.items():
            index.add(name, steps.text, namespaces=dict(steps.namespaces))
        deliveries = index.render(document)
        root = etree.fromstring(document)
        starts = {name for name, steps in lists.items() if not steps.start or started(root, steps)}
        assert [delivery.subscription for delivery in deliveries] == [name for name in lists if name in starts]
        for delivery in deliveries:
            steps = lists[delivery.subscription]
            (payload,) = restructure(document, steps.text, namespaces=steps.namespaces)
            expected = (payload, None) if isinstance(payload, bytes) else (b"", payload.code)
            assert (delivery.payload, delivery.refused and delivery.refused.code) == expected
        delivered += len(deliveries)
    assert delivered > 150


def started(root: etree._Element, steps: StepList) -> bool:
    return bool(select(root, steps.start_oracle, steps.oracle_namespaces))
