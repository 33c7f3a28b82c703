"""What subscribers get: transformations and queries rendered natively, against bytes written by hand."""

from __future__ import annotations

import pytest
from lxml import etree

from treecast import _native
from treecast.errors import DocumentError, LimitError, QueryError, TreecastError

NEWS = (
    b'<?xml version="1.0"?><news><item id="1" lang="en"><title>First &amp; last</title><p>a<b>b</b>c</p></item>'
    b'<item id="2"><title>Second</title><!--note--><p><![CDATA[x<y]]></p></item>'
    b'<item id="3" lang="de"><title/></item></news>'
)
SPACES = (
    b'<r xmlns="urn:d" xmlns:p="urn:p"><p:a p:k="1" k="2">x</p:a><b xmlns=""><c/></b>'
    b'<e xmlns:p="urn:q" p:k="3"><f/></e></r>'
)


def render(
    data: bytes,
    *texts: str,
    namespaces: dict[str, str] | None = None,
    ordered: bool = False,
    elements: bool = True,
    renderer: _native.testing.TextRenderer | None = None,
) -> list[tuple[int, bytes] | Exception | None]:
    made = renderer or _native.testing.TextRenderer()
    return made.render(data, list(texts), list((namespaces or {}).items()), ordered, elements)


def payload(data: bytes, text: str, **namespaces: str) -> bytes:
    (rendered,) = render(data, text, namespaces={key.rstrip("_"): uri for key, uri in namespaces.items()})
    assert isinstance(rendered, tuple), rendered
    etree.fromstring(b"<w>" + rendered[1] + b"</w>")
    return rendered[1]


def refused(data: bytes, text: str, renderer: _native.testing.TextRenderer | None = None) -> TreecastError:
    (rendered,) = render(data, text, renderer=renderer)
    assert isinstance(rendered, TreecastError), rendered
    return rendered


# --- queries


def test_a_document_is_delivered_as_it_came() -> None:
    data = '<?xml version="1.0" encoding="UTF-16"?><ä/>'.encode("utf-16")
    assert render(data, "//*", "//nothing", elements=False) == [(0, data), (0, data)]


def test_elements_of_a_query() -> None:
    assert render(NEWS, "//title") == [(0, b"<title>First &amp; last</title><title>Second</title><title/>")]
    assert render(NEWS, "//b | /news/item[@id=3]") == [(0, b'<b>b</b><item id="3" lang="de"><title/></item>')]
    assert render(NEWS, "//nothing") == [None]


def test_attributes_and_texts_of_a_query_are_raw() -> None:
    assert render(NEWS, "//@id", "//title/text()", "//p[contains(., '<')]/text()") == [
        (0, b"123"),
        (1, b"First & lastSecond"),
        (2, b"x<y"),
    ]


def test_ordered_queries_select_what_they_match() -> None:
    data = b"<a><c/><b>1</b><c>2</c><d/></a>"
    assert render(data, "/a[b]/c") == [(0, b"<c/><c>2</c>")]
    assert render(data, "/a[b]/c", ordered=True) == [(0, b"<c>2</c>")]


def test_elements_keep_their_namespaces() -> None:
    spaces = ' xmlns="urn:d" xmlns:p="urn:p"'
    found = render(SPACES, "//*[local-name()='a']", "//c", "//*[local-name()='f']")
    assert found == [
        (0, f'<p:a{spaces} p:k="1" k="2">x</p:a>'.encode()),
        (1, b'<c xmlns:p="urn:p"/>'),
        (2, b'<f xmlns="urn:d" xmlns:p="urn:q"/>'),
    ]


# --- for, let, where, order by


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for $i in $msg//item return <t>{string($i/title)}</t>", b"<t>First &amp; last</t><t>Second</t><t/>"),
        ("for $i in $msg//item where $i/@lang return $i/title", b"<title>First &amp; last</title><title/>"),
        ('for $i in $msg//item where not($i/@lang = "en") return <t>{$i/@id}</t>', b'<t id="2"/><t id="3"/>'),
        ("for $i in $msg//item let $t := $i/title where $t = 'Second' return $t", b"<title>Second</title>"),
        # several variables: the last one runs fastest
        (
            "for $i in $msg/news/item, $j in $msg/news/item where $i/@id < 2 return <t>{$j/@id}</t>",
            b'<t id="1"/><t id="2"/><t id="3"/>',
        ),
        ("for $i in $msg//item for $p in $i/p return <t>{$i/@id}{$p/b}</t>", b'<t id="1"><b>b</b></t><t id="2"/>'),
        ("for $m in $msg return <t>{count($m//item)}</t>", b"<t>3</t>"),
        # inside each other
        (
            "for $i in $msg//item return <t>{for $p in $i/p where $p/b return <u>{$i/@id}</u>}</t>",
            b'<t><u id="1"/></t><t/><t/>',
        ),
        # as the papers print it
        ("for $i in $msg/news return {$i/item/title}", b"<title>First &amp; last</title><title>Second</title><title/>"),
        # a wrapper
        ("<all>{for $i in $msg//item return <t/>}</all>", b"<all><t/><t/><t/></all>"),
        # a binding, but nothing is built
        ("for $i in $msg//item return ()", b""),
        ("for $i in $msg//item return $i/nothing", b""),
    ],
)
def test_clauses(text: str, expected: bytes) -> None:
    assert payload(NEWS, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "for $i in $msg//nothing return <t/>",
        "<all>{for $i in $msg//item where $i/@lang = 'fr' return <t/>}</all>",
        "<all>{$msg//nothing}</all>",
        "<all>{if ($msg//nothing) then $msg//item else $msg//none}</all>",
        "for $i in $msg//item, $j in $i/nothing return <t/>",
        "from //nothing drop //b",
    ],
)
def test_no_binding_no_delivery(text: str) -> None:
    assert render(NEWS, text) == [None]


def test_what_is_delivered_binds_where_nothing_else_does() -> None:
    assert payload(NEWS, "<all>{$msg//b}</all>") == b"<all><b>b</b></all>"
    assert payload(NEWS, "<all>{count($msg//item)}</all>") == b"<all>3</all>"
    assert payload(NEWS, "<all>{if ($msg//b) then $msg//b else $msg//none}</all>") == b"<all><b>b</b></all>"


WORDS = b"<r><w k='b' n='1'>10</w><w n='2'><x/></w><w k='a'>9<x/></w><w k='\xc3\xa4'>9</w><w k='Z'>1<v>0</v></w></r>"


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("$w/@k", "|Z|a|b|ä"),
        ("$w/@k descending", "ä|b|a|Z|"),
        ("$w/@k empty greatest", "Z|a|b|ä|"),
        ("$w/@k descending empty greatest", "|ä|b|a|Z"),
        ("$w", "|b|Z|a|ä"),  # "", "10", "10", "9", "9": those that are equal stay in document order
        ("$w descending", "a|ä|b|Z|"),
        ("count($w/x), $w/@k", "Z|b|ä||a"),
        ("count($w/x) descending, $w/@k descending", "a||ä|b|Z"),
    ],
)
def test_order_by(order: str, expected: str) -> None:
    text = f"for $w in $msg//w order by {order} return <o>{{string($w/@k)}}</o>"
    values = etree.fromstring(b"<r>" + payload(WORDS, text) + b"</r>")
    assert "|".join(value.text or "" for value in values) == expected


def test_strings_that_are_split_differently_are_ordered_by_their_characters() -> None:
    data = b"<r><w>ab<x>c</x>d</w><w>abc<x/></w><w>a<x>bcd</x>e</w><w><x>abcd</x></w></r>"
    assert payload(data, "for $w in $msg//w order by $w return <o>{string($w)}</o>") == (
        b"<o>abc</o><o>abcd</o><o>abcd</o><o>abcde</o>"
    )


# --- values


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ('{1, 2, "a"}', b"1 2 a"),
        ("{1}{2}", b"12"),
        ('{"", ""}', b" "),
        ('{""}', None),
        ("{1, <t/>, 2, 3}", b"1<t/>2 3"),
        ("{1, $i/title/text(), 2}", b"1First &amp; last2"),
        ("x{1}y", b"x1y"),
        ("{for $j in $msg//item return string($j/@id)}", b"1 2 3"),
        ("{for $j in $msg//item return (string($j/@id), <t/>)}", b"1<t/>2<t/>3<t/>"),
        ("{(1, (2, 3))}{if ($i/p) then (4, 5) else 6}", b"1 2 34 5"),
        ("{string($i/p)}", b"abc"),
        ("{string($msg//title)}", b"First &amp; last"),  # of several, the first
        ("{string($i/nothing)}{count($i/nothing)}", b"0"),
        ("{count($msg//item | $msg//title | $msg//item)}", b"6"),
        ('{concat($i/@id, "<", $msg//@lang, 7)}', b"1&lt;en7"),
        ("{name($i), name($i/@lang), name($i/title/text()), name($i/nothing)}", b"item lang  "),
        ('{"<&amp;>""\'"}', b"&lt;&amp;&gt;\"'"),
        ("&#13;{'&#13;'}", b"&#13;&#13;"),
    ],
)
def test_values_in_content(inside: str, expected: bytes | None) -> None:
    made = payload(NEWS, f"for $i in $msg/news/item[1] return <o>{inside}</o>")
    assert made == (b"<o/>" if expected is None else b"<o>" + expected + b"</o>")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", b"x"),
        ("{1, 2}{3}", b"1 23"),
        ("{$i/@id}-{$msg//title}", b"1-First &amp; last Second "),
        ("{$i/p, $i/@id, 7}", b"abc 1 7"),
        ("{for $j in $msg//item return $j/@id}", b"1 2 3"),
        ("a{{b}}{()}", b"a{b}"),
        ("{concat('&#9;&#10;&#13;', '&lt;&amp;&gt;')}", b"&#9;&#10;&#13;&lt;&amp;&gt;"),
        ("&#9;'&quot;", b"&#9;'&quot;"),
    ],
)
def test_values_of_attributes(value: str, expected: bytes) -> None:
    made = payload(NEWS, f'for $i in $msg/news/item[1] return <o k="{value}"/>')
    assert made == b'<o k="' + expected + b'"/>'


def test_values_without_a_constructor_are_joined() -> None:
    assert payload(NEWS, "for $i in $msg//item return string($i/@id)") == b"1 2 3"
    assert payload(NEWS, "for $i in $msg//item return ($i/title/text(), 1)") == b"First &amp; last1Second1 1"


# --- constructors


def test_everything_that_a_constructor_may_hold() -> None:
    text = (
        "for $i in $msg/news/item[1] return <o a='1' b=\"{$i/@id}\"><!--c--><?p q?> <![CDATA[<]]>&lt;&#65;"
        "<e></e>{$i/title}</o>"
    )
    assert payload(NEWS, text) == (b'<o a="1" b="1"><!--c--><?p q?> &lt;&lt;A<e/><title>First &amp; last</title></o>')


def test_copies_are_slices_of_the_source() -> None:
    text = "for $i in $msg/news/item[2] return <o>{$i/title, $i/p}</o>"
    assert payload(NEWS, text) == b"<o><title>Second</title><p><![CDATA[x<y]]></p></o>"
    assert payload(NEWS, "for $i in $msg/news/item[2] return $i") == (
        b'<item id="2"><title>Second</title><!--note--><p><![CDATA[x<y]]></p></item>'
    )


def test_the_document_as_an_item() -> None:
    assert payload(b"<?xml version='1.0'?><!--a--><r/><?b?>", "<o>{$msg}</o>") == b"<o><!--a--><r/><?b?></o>"
    assert payload(b"<r>1<s>2</s></r>", '<o k="{$msg}">{string($msg)}</o>') == b'<o k="12">12</o>'


def test_attribute_items_become_attributes() -> None:
    assert payload(NEWS, "for $i in $msg//item return <o x='0'>{$i/@*}{$i/title}</o>") == (
        b'<o x="0" id="1" lang="en"><title>First &amp; last</title></o><o x="0" id="2"><title>Second</title></o>'
        b'<o x="0" id="3" lang="de"><title/></o>'
    )
    text = "for $i in $msg/news/item[1] return <o>{attribute k {$i/@id, 'z'}, attribute l {()}, ''}{$i/@lang}</o>"
    assert payload(NEWS, text) == b'<o k="1 z" l="" lang="en"/>'


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("for $i in $msg//item return $i/@id", "outside any element", "$i/@id"),
        ("for $i in $msg//item return attribute k {1}", "outside any element", "attribute k {1}"),
        ("for $i in $msg//item return <o>x{$i/@id}</o>", "after the content", "$i/@id"),
        ("for $i in $msg//item return <o>{1, $i/@id}</o>", "after the content", "$i/@id"),
        ("for $i in $msg//item return <o><p/>{attribute k {1}}</o>", "after the content", "attribute k {1}"),
        ("<o>{$msg//item/@id}</o>", "two attributes", "$msg//item/@id"),
        ("for $i in $msg//item return <o id='7'>{$i/@id}</o>", "two attributes", "$i/@id"),
        ("for $i in $msg//item return <o>{attribute id {1}, $i/@id}</o>", "two attributes", "$i/@id"),
    ],
)
def test_misplaced_attributes_refuse_the_delivery(text: str, message: str, at: str) -> None:
    error = refused(NEWS, text)
    assert isinstance(error, QueryError)
    assert error.code == "TC119"
    assert message in str(error)
    assert error.position == text.rindex(at)
    assert error.hint


# --- namespaces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # what is copied keeps all that was in scope
        ("for $c in $msg//c return <o>{$c}</o>", '<o><c xmlns:p="urn:p"/></o>'),
        ('for $c in $msg//c return <o xmlns="urn:o">{$c}</o>', '<o xmlns="urn:o"><c xmlns:p="urn:p" xmlns=""/></o>'),
        ('for $c in $msg//c return <o xmlns:p="urn:p">{$c}</o>', '<o xmlns:p="urn:p"><c/></o>'),
        (
            'for $c in $msg//c return <o xmlns:p="urn:o"><i>{$c}</i></o>',
            '<o xmlns:p="urn:o"><i><c xmlns:p="urn:p"/></i></o>',
        ),
        # constructors
        ('for $c in $msg//c return <o xmlns="urn:o"><i/></o>', '<o xmlns="urn:o"><i/></o>'),
        ('for $c in $msg//c return <o xmlns="urn:o"><i xmlns=""/></o>', '<o xmlns="urn:o"><i xmlns=""/></o>'),
        (
            'for $c in $msg//c return <z:o xmlns:z="urn:z"><i z:k="1"/><z:j xmlns:z="urn:y"/></z:o>',
            '<z:o xmlns:z="urn:z"><i z:k="1"/><z:j xmlns:z="urn:y"/></z:o>',
        ),
        ('for $c in $msg//c return <o xml:lang="en"/>', '<o xml:lang="en"/>'),
        # prefixes of the subscription are declared where they are used
        (
            "for $c in $msg//c return <o><s:i/><j s:k='1'/></o>",
            '<o><s:i xmlns:s="urn:s"/><j xmlns:s="urn:s" s:k="1"/></o>',
        ),
        ("for $c in $msg//c return <s:o><s:i/></s:o>", '<s:o xmlns:s="urn:s"><s:i/></s:o>'),
        # attribute items bring their prefix
        (
            "for $a in $msg//*[local-name()='a'] return <o>{$a/@*}</o>",
            '<o xmlns:p="urn:p" p:k="1" k="2"/>',
        ),
        (
            "for $a in $msg//*[local-name()='a'] return <o xmlns:p='urn:p'>{$a/@*}</o>",
            '<o xmlns:p="urn:p" p:k="1" k="2"/>',
        ),
        # … or another one, where a constructor has it
        (
            "for $a in $msg//*[local-name()='a'] return <o xmlns:p='urn:o'><i j='0'>{$a/@*}</i></o>",
            '<o xmlns:p="urn:o"><i j="0" xmlns:p_2="urn:p" p_2:k="1" k="2"/></o>',
        ),
        (
            "for $e in $msg//*[local-name()='e'], $a in $msg//*[local-name()='a'] return <o>{$a/@*}<i>{$e/@*}</i></o>",
            '<o xmlns:p="urn:p" p:k="1" k="2"><i xmlns:p="urn:q" p:k="3"/></o>',
        ),
        (
            "for $e in $msg//*[local-name()='e'], $a in $msg//*[local-name()='a'] return <o>{$a/@*, $e/@*}</o>",
            '<o xmlns:p="urn:p" p:k="1" k="2" xmlns:p_3="urn:q" p_3:k="3"/>',
        ),
    ],
)
def test_namespaces(text: str, expected: str) -> None:
    assert payload(SPACES, text, s="urn:s").decode() == expected


def test_prefixes_of_constructors_are_bound_in_paths() -> None:
    assert payload(SPACES, '<o xmlns:d="urn:d" xmlns:x="urn:p">{count($msg//x:a), count($msg//d:e)}</o>') == (
        b'<o xmlns:d="urn:d" xmlns:x="urn:p">1 1</o>'
    )


def test_entities_that_the_caller_gave_are_spelt_out() -> None:
    entities = _native.Entities({"e": "<é>"})
    renderer = _native.testing.TextRenderer(entities=entities)
    data = b"<r a='&e;'><s>&e;&lt;</s></r>"
    made = render(data, "//s", "for $s in $msg/r return <o>{$s/@a}{$s/s}</o>", renderer=renderer)
    assert made == [
        (0, "<s>&lt;é&gt;&lt;</s>".encode()),
        (1, '<o a="&lt;é&gt;"><s>&lt;é&gt;&lt;</s></o>'.encode()),
    ]


# --- sharing


def work(renderer: _native.testing.TextRenderer) -> dict[str, int]:
    return dict(zip(("parsed", "built", "bound", "reused"), renderer.work(), strict=True))


def test_equal_subscriptions_have_one_payload() -> None:
    renderer = _native.testing.TextRenderer()
    texts = [
        "for $i in $msg//item return <o>{$i/title}</o>",
        "for  $i  in $msg//item return <o>{ $i/title }</o>",
        "for $other in $msg//item return <o>{$other/title}</o>",
        "for $i in $msg//item return <o>{$i/p}</o>",
        "for $i in $msg//item return <o>{$i/title}</o>",
    ]
    numbers = [found[0] for found in render(NEWS, *texts, renderer=renderer) if isinstance(found, tuple)]
    assert numbers == [0, 0, 0, 1, 0]
    assert work(renderer) == {"parsed": 4, "built": 2, "bound": 1, "reused": 0}
    render(NEWS, *texts, renderer=renderer)
    assert work(renderer)["parsed"] == 4


def test_equal_clauses_are_bound_once() -> None:
    renderer = _native.testing.TextRenderer()
    texts = [f"for $v{i} in $msg//item where $v{i}/@lang return <o{i}/>" for i in range(5)]
    texts += ["for $i in $msg//item where $i/@lang = 'en' return <o/>"]
    texts += ["for $i in $msg//item where $i/@lang order by $i/@id descending return $i/title"]
    made = render(NEWS, *texts, renderer=renderer)
    assert work(renderer)["bound"] == 3
    assert made[5:] == [(5, b"<o/>"), (6, b"<title/><title>First &amp; last</title>")]


def test_equal_constructors_are_built_once() -> None:
    renderer = _native.testing.TextRenderer()
    part = "<t n='{$v/@id}'>{$v/title}</t>"
    texts = [f"for $v in $msg//item return <o{i}>{part}</o{i}>" for i in range(4)]
    texts += [f"for $i in $msg//item[@lang] return {part.replace('$v', '$i')}"]
    made = render(NEWS, *texts, renderer=renderer)
    # The first could not know; after that each of the three items is built once, then copied.
    assert work(renderer)["reused"] == 3 + 3 + 2
    parts = [
        b'<t n="1"><title>First &amp; last</title></t>',
        b'<t n="2"><title>Second</title></t>',
        b'<t n="3"><title/></t>',
    ]
    for i in range(4):
        whole = b"".join(b"<o%d>" % i + part + b"</o%d>" % i for part in parts)
        assert made[i] == (i, whole)
    assert made[4] == (4, parts[0] + parts[2])


def test_a_constructor_is_reused_only_under_the_same_namespaces() -> None:
    renderer = _native.testing.TextRenderer()
    texts = [
        "for $c in $msg//c return <i>{$c}</i>",
        "for $c in $msg//c return <o xmlns:p='urn:p'>{for $d in $c return <i>{$d}</i>}</o>",
        "for $c in $msg//c return <o>{for $d in $c return <i>{$d}</i>}</o>",
        "for $c in $msg//c return <q xmlns:p='urn:p'><i>{$c}</i></q>",
    ]
    for _ in range(2):
        made = render(SPACES, *texts, renderer=renderer)
        assert made == [
            (0, b'<i><c xmlns:p="urn:p"/></i>'),
            (1, b'<o xmlns:p="urn:p"><i><c/></i></o>'),
            (2, b'<o><i><c xmlns:p="urn:p"/></i></o>'),
            (3, b'<q xmlns:p="urn:p"><i><c/></i></q>'),
        ]
    assert work(renderer)["reused"] > 0


def test_nothing_is_shared_where_sharing_is_off() -> None:
    shared, alone = _native.testing.TextRenderer(), _native.testing.TextRenderer(share=False)
    part = "<t n='{$v/@id}'>{$v/title}</t>"
    texts = [f"for $v in $msg//item return <o{i % 3}>{part}</o{i % 3}>" for i in range(6)] + ["//title", "//title"]
    for _ in range(2):
        with_sharing = render(NEWS, *texts, renderer=shared)
        without = render(NEWS, *texts, renderer=alone)
        assert [found and found[1] for found in with_sharing] == [found and found[1] for found in without]  # type: ignore[index]
        assert [found and found[0] for found in without] == list(range(8))  # type: ignore[index]
    assert work(alone)["reused"] == 0
    assert work(alone)["bound"] == 12


def test_payloads_of_one_document_are_forgotten_with_it() -> None:
    renderer = _native.testing.TextRenderer()
    text = "for $a in $msg//a return <o>{$a/@k}</o>"
    for k in range(3):
        data = b'<r><a k="%d"/></r>' % k
        assert render(data, text, "//a", renderer=renderer) == [
            (0, b'<o k="%d"/>' % k),
            (1, b'<a k="%d"/>' % k),
        ]


# --- limits


def test_a_payload_over_the_limit_is_refused_and_the_others_are_not() -> None:
    renderer = _native.testing.TextRenderer(payload_bytes_max=40)
    texts = ["//title", "//b", "for $i in $msg//item return <o>{$i}</o>", "for $b in $msg//b return <o>{$b}</o>"]
    made = render(NEWS, *texts, renderer=renderer)
    assert made[1] == (0, b"<b>b</b>")
    assert made[3] == (1, b"<o><b>b</b></o>")
    for refusal in (made[0], made[2]):
        assert isinstance(refusal, LimitError)
        assert isinstance(refusal, DocumentError)
        assert refusal.code == "TC330"
        assert "payload_bytes_max" in str(refusal)


@pytest.mark.parametrize(
    "text",
    [
        "for $i in $msg//item return <o>{string($i/title)}</o>",
        "for $i in $msg//item return <o k='{$i/title}'/>",
        "for $i in $msg//item return <abcdefghijklm/>",
        "for $i in $msg//item return 'abcdefghijklmnop'",
        "for $i in $msg//item return <o><!--abcdefghijkl--></o>",
        "<o>{$msg}</o>",
        "drop //nothing",
    ],
)
def test_every_way_to_grow_is_limited(text: str) -> None:
    assert refused(NEWS, text, _native.testing.TextRenderer(payload_bytes_max=30)).code == "TC330"
    assert payload(NEWS, text)


def test_payloads_together_are_limited() -> None:
    renderer = _native.testing.TextRenderer(document_payload_bytes_max=70)
    texts = ["//title", "//p", "//b", "//title"]
    for _ in range(2):
        made = render(NEWS, *texts, renderer=renderer)
        assert made[0] == made[3] == (0, b"<title>First &amp; last</title><title>Second</title><title/>")
        assert isinstance(made[1], LimitError)
        assert made[1].code == "TC331"
        assert made[2] == (1, b"<b>b</b>")


def test_bindings_are_limited() -> None:
    text = "for $a in $msg//*, $b in $msg//*, $c in $msg//* where $c/none return <o/>"
    data = b"<r>" + b"<a/>" * 300 + b"</r>"
    assert render(data, text) == [None]  # nothing is bound, so there is nothing to refuse
    error = refused(data, text.replace("none", "a"))
    assert isinstance(error, LimitError)
    assert error.code == "TC332"
    assert "bindings_max" in str(error)
    renderer = _native.testing.TextRenderer(bindings_max=12)
    pairs = "for $a in $msg//a, $b in $msg//a return <o/>"
    assert render(b"<r><a/><a/><a/></r>", pairs, renderer=renderer) == [(0, b"<o/>" * 9)]
    assert refused(b"<r><a/><a/><a/><a/></r>", pairs, renderer).code == "TC332"


def test_what_a_refused_payload_left_is_not_reused() -> None:
    renderer = _native.testing.TextRenderer()
    part = "<t>{$i/title}</t>"
    texts = [
        f"for $i in $msg//item return <a>{part}</a>",
        f"for $i in $msg//item return <b>{part}{{$i/@id}}</b>",
        f"for $i in $msg//item return <c>{part}</c>",
        "for $i in $msg//item return <d>filler filler filler filler filler</d>",
        f"for $i in $msg//item return <e>{part}</e>",
    ]
    for _ in range(2):
        made = render(NEWS, *texts, renderer=renderer)
        assert isinstance(made[1], QueryError)
        titles = [b"<title>First &amp; last</title>", b"<title>Second</title>", b"<title/>"]
        for at, name in ((0, b"a"), (2, b"c"), (4, b"e")):
            whole = b"".join(b"<" + name + b"><t>" + title + b"</t></" + name + b">" for title in titles)
            assert made[at] is not None and made[at][1] == whole  # type: ignore[index]


@pytest.mark.parametrize("name", ["payload_bytes_max", "document_payload_bytes_max", "bindings_max"])
def test_limits_must_be_positive(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        _native.testing.TextRenderer(**{name: 0})  # type: ignore[arg-type]


def test_a_text_that_cannot_be_read_raises() -> None:
    with pytest.raises(QueryError):
        render(NEWS, "for $i in $msg//item")


def test_deep_paths_from_nested_items() -> None:
    depth = 200
    data = b"<r>" + b"<a>" * depth + b"<b/>" + b"</a>" * depth + b"</r>"
    text = "for $a in $msg//a where $a//a//b return <o>{count($a//b)}</o>"
    assert payload(data, text) == b"<o>1</o>" * (depth - 1)


def test_refusals_point_into_their_own_text() -> None:
    renderer = _native.testing.TextRenderer()
    texts = [
        "for $i in $msg//item where $i/@id = 1 return <o>x{$i/@id}</o>",
        "for $other in $msg//item where $other/@lang = 'de' return <o>x{ $other/@id }</o>",
    ]
    for found, text in zip(render(NEWS, *texts, renderer=renderer), texts, strict=True):
        assert isinstance(found, QueryError)
        assert found.position == text.index("{") + (1 if text == texts[0] else 2)


def test_one_body_under_several_clauses_is_built_once_for_an_item() -> None:
    renderer = _native.testing.TextRenderer()
    texts = [f"for $v in $msg//item where $v/@id < {i} return <o>{{$v/title}}</o>" for i in (4, 5, 3)]
    made = render(NEWS, *texts, renderer=renderer)
    whole = b"<o><title>First &amp; last</title></o><o><title>Second</title></o><o><title/></o>"
    assert made == [(0, whole), (1, whole), (2, whole.removesuffix(b"<o><title/></o>"))]
    assert work(renderer) == {"parsed": 3, "built": 3, "bound": 3, "reused": 2}


def test_variables_find_their_place_in_a_shared_body() -> None:
    renderer = _native.testing.TextRenderer()
    texts = [
        "for $a in $msg//item, $b in $a/title return <o>{$b/text()}{$a/p/b}</o>",
        "for $b in $msg//title, $a in $msg//item[p/b] return <o>{$b/text()}{$a/p/b}</o>",
        "for $x in $msg//item[1], $y in $msg//item[2] return <o>{$y/@id}</o>",
        "for $y in $msg//item[1], $x in $msg//item[2] return <o>{$y/@id}</o>",
    ]
    for _ in range(2):
        made = render(NEWS, *texts, renderer=renderer)
        assert made == [
            (0, b"<o>First &amp; last<b>b</b></o><o>Second</o><o/>"),
            (1, b"<o>First &amp; last<b>b</b></o><o>Second<b>b</b></o><o><b>b</b></o>"),
            (2, b'<o id="2"/>'),
            (3, b'<o id="1"/>'),
        ]


def test_plans_that_do_not_fit_are_read_again() -> None:
    renderer = _native.testing.TextRenderer()
    filler = "x" * 40_000
    texts = [f"for $i in $msg/news return <o n='{i}'>{filler}</o>" for i in range(150)]
    for round_ in range(2):
        for i, found in enumerate(render(NEWS, *texts, renderer=renderer)):
            assert found == (i, b'<o n="%d">' % i + filler.encode() + b"</o>")
        parsed = work(renderer)["parsed"]
        assert parsed == 150 if round_ == 0 else parsed > 150
