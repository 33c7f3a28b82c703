"""Folding and encoding are exact inverses of unfolding and decoding; lxml's C14N is the judge."""

from __future__ import annotations

import io
from math import log2
from random import Random

import pytest
from generators.xml import ENCODINGS, Generator
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from treecast.errors import DocumentError
from treecast.selective.encoding import decode, encode
from treecast.selective.folded import fold
from treecast.selective.outline import Outline

pytestmark = pytest.mark.house

CORNERS = [
    b"<a/>",
    b"<!-- b --><?p?><a> \n\t</a><!-- e --><?q r?>\n",
    b'<!DOCTYPE a SYSTEM "none.dtd" [ <!-- not part of it --> <?nor this?> ]><a/>',
    b"<a>&#13;\r\n<![CDATA[<&>]]]]>&gt;<b/>\\n\\\\ \\t<!-- - --><?p  x ?></a>",
    b"<a x='&#9;&#10;&#13; &quot;&lt;&amp;' xml:space='preserve' xml:lang='x'> <b/> </a>",
    b"<fold:a xmlns:fold='urn:treecast:fold:7' fold:id='1' fold:gap-0='x'><fold:b fold:pon='2'/>text</fold:a>",
    b"<a xmlns='urn:a' xmlns:p='urn:p'><b xmlns=''><p:c xmlns:p='urn:q' p:x='1' x='2'/></b><p:d p:y=''/></a>",
    b"<a><b xmlns:unused='urn:u'><c unused:x='1'/></b></a>",
    "<ä ö='ü😀'>“</ä>".encode(),
]


def canonical(data: bytes) -> bytes:
    """C14N with comments, by libxml2. It does not escape `&` in namespaces, so what it writes is only compared."""
    tree = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True)).getroottree()
    out = io.BytesIO()
    tree.write_c14n(out)
    return out.getvalue()


def check(data: bytes) -> None:
    folded = fold(data)
    plain = folded.to_bytes()
    assert canonical(plain) == canonical(data)
    if b"&amp;b" not in plain:
        assert plain == canonical(data)
    encoded = encode(data)
    tree = etree.fromstring(encoded)
    assert not any((element.text or "") + (element.tail or "") for element in tree.iter())
    assert decode(encoded) == plain
    # Whatever a careless serialiser does to white space in attributes.
    assert decode(etree.tostring(tree.getroottree(), encoding="utf-8")) == plain
    assert decode(decode(encode(encoded))) == plain


@pytest.mark.parametrize("data", CORNERS)
def test_corners(data: bytes) -> None:
    check(data)


def test_generated_documents() -> None:
    for seed in range(200):
        check(Generator(seed).document(ENCODINGS[seed % len(ENCODINGS)]))


def test_text_survives_in_any_shape() -> None:
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x0b\x0c\ufffe\uffff", min_codepoint=32)

    @given(st.lists(st.text(characters | st.sampled_from("\t\n\r\\<&>'\""), max_size=6), min_size=3, max_size=3))
    def run(texts: list[str]) -> None:
        root = etree.Element("a", x=texts[0])
        root.text, child = texts[1], etree.SubElement(root, "b")
        child.tail = texts[2]
        check(etree.tostring(root))

    run()


CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff", min_codepoint=32)
TEXTS = st.text(CHARACTERS | st.sampled_from("\t\n\r\\<&>'\""), max_size=5)
SPACES = st.sampled_from(
    ["", "", "", " xmlns='urn:d'", " xmlns=''", " xmlns:p='urn:q'", " xmlns:fold='urn:treecast:fold:3'"]
)


def written(text: str) -> str:
    """Text or the value of an attribute; a parser gives it back as it was."""
    return "".join(f"&#{ord(one)};" if one in "\t\n\r<&>'\"" else one for one in text)


def instruction(text: str) -> str:
    return f"<?i {text.replace('?>', '').replace(chr(13), '')}?>"


def comment(text: str) -> str:
    return f"<!--{text.replace('-', '').replace(chr(13), '')}-->"


def element(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    attributes = st.dictionaries(st.sampled_from(["x", "p:x", "xml:lang", "gap-0", "fold"]), TEXTS, max_size=3)

    def write(name: str, space: str, values: dict[str, str], inner: list[str]) -> str:
        start = name + space + "".join(f" {one}='{written(value)}'" for one, value in values.items())
        return f"<{start}>{''.join(inner)}</{name}>"

    return st.builds(write, st.sampled_from(["a", "b", "p:c"]), SPACES, attributes, st.lists(children, max_size=4))


def test_any_document_survives() -> None:
    """Elements, namespaces that are declared anew, text, comments and instructions in any order."""
    leaves = (
        TEXTS.map(written)
        | TEXTS.map(comment)
        | TEXTS.map(instruction)
        | TEXTS.map(lambda one: f"<![CDATA[{one.replace(']', '')}]]>")
    )
    contents = st.recursive(leaves, element, max_leaves=12)

    @given(st.lists(contents, max_size=5), TEXTS.map(comment), TEXTS.map(instruction))
    def run(inner: list[str], before: str, after: str) -> None:
        check(f"{before}<p:top xmlns:p='urn:p'>{''.join(inner)}</p:top>{after}".encode())

    run()


@pytest.mark.parametrize("damage", [(b":pon=", b":p="), (b":gap-0=", b":gap-2="), (b"urn:treecast:fold", b"urn:x")])
def test_what_is_not_encoded_is_refused(damage: tuple[bytes, bytes]) -> None:
    encoded = encode(b"<a>one<b/></a>")
    with pytest.raises(DocumentError) as caught:
        decode(encoded.replace(*damage))
    assert caught.value.code == "TC231"


def test_content_beside_the_folds_is_refused() -> None:
    with pytest.raises(DocumentError, match="not folded"):
        decode(encode(b"<a>one<b/></a>").replace(b"</a>", b"two</a>"))


# -- labels


def check_labels(outline: Outline) -> None:
    order = list(outline.post_order())
    labels = [outline.label(id) for id in order]
    assert [pon for pon, _ in labels] == sorted({pon for pon, _ in labels})
    for id, label in zip(order, labels, strict=True):
        inside = set(outline.subtree(id))
        assert label == (max(outline.label(one)[0] for one in inside), min(outline.label(one)[0] for one in inside))
        assert outline.find(label) == id
        assert {one for one in order if outline.contains(id, one)} == inside


def test_labels_are_those_of_the_columns() -> None:
    from treecast.document import read

    for seed in range(20):
        document = read(Generator(seed).document("utf-8"))
        outline = Outline(list(document.parents), spacing=1)
        assert [outline.label(id) for id in outline] == document.post_orders


def test_labels_survive_changes() -> None:
    for seed in range(40):
        random = Random(seed)
        outline = Outline([-1], spacing=random.choice([1, 3, None]))
        known: dict[int, int | None] = {}
        for _ in range(60):
            ids = list(outline)
            if random.random() < 0.25 and len(ids) > 1:
                outline.remove(random.choice(ids[1:]))
            else:
                parent = ids[-1] if seed % 4 == 0 else random.choice(ids)
                id = outline.insert(parent, random.randint(0, len(outline.children(parent))))
                assert id not in known, "an id is never used again"
                known[id] = parent
        assert all(outline.parent(id) == known[id] for id in outline if id in known)
        check_labels(outline)


def test_an_adversary_that_looks_for_the_smallest_gap() -> None:
    """With removals in between, too: the average stays below log2 of the elements."""
    for removals in (0.0, 0.4):
        random = Random(1)
        outline = Outline([-1])
        count = 1_000
        for _ in range(count):
            labels = [0, *(outline.label(id)[0] for id in outline.post_order())]
            outline.insert(0, min(range(len(labels) - 1), key=lambda place: labels[place + 1] - labels[place]))
            if random.random() < removals:
                outline.remove(random.choice(outline.children(0)))
        assert 1 < outline.relabels / count < log2(count)


@pytest.mark.parametrize("place", ["first", "last", "middle"])
def test_few_labels_change(place: str) -> None:
    """At one and the same place again and again, the worst case: about log2(n) labels an insertion."""
    costs = {}
    for count in (500, 8_000):
        outline = Outline([-1])
        for number in range(count):
            outline.insert(0, {"first": 0, "last": number, "middle": number // 2}[place])
        costs[count] = outline.relabels / count
    assert 0 < costs[8_000] < 13
    assert costs[8_000] < costs[500] + 5  # four doublings, about one each: a list of plain numbers would cost 16 times
