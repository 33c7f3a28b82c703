"""The DTD reader: what it reads, where it looks for parts, what it refuses and at which place.

lxml is the oracle of what a DTD declares.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from treecast import DocumentError, LimitError
from treecast.workload import Attribute, Group, Name, Schema
from treecast.workload.dtd import Declarations, read_dtd, read_dtd_file

pytestmark = pytest.mark.house

# Constructions of the well-known DTDs, written anew: nested parameter entities, groups in groups, optional parts of a
# choice, ID and IDREF, fixed values, every kind of declaration that is passed over.
SHOP_DTD = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a shop; "quotes" and > in a comment, and %nothing; -->
<!ENTITY % name.kind "#PCDATA | em">
<!ENTITY % ids 'id ID #REQUIRED'> <!ENTITY % both "%ids; note CDATA #IMPLIED">
<!ENTITY % parts "<!ELEMENT part (#PCDATA)>">
<!ENTITY % parts "<!ELEMENT never EMPTY>">
<!ENTITY euro "&#8364;"> <!NOTATION gif SYSTEM "gif"> <!NOTATION png PUBLIC "-//x//png" "png">
<!ENTITY logo SYSTEM "logo.gif" NDATA gif>
<!ELEMENT shop (owner, (shelf | (drawer, key))+, till?)>
<!ATTLIST shop version CDATA #FIXED 'a "b" c'>
<!ELEMENT owner (%name.kind;)*>
<!ATTLIST owner sign ENTITY #IMPLIED form NOTATION (gif | png) #IMPLIED>
<!ELEMENT em EMPTY>
<!ELEMENT shelf (item+ | empty? | box?)*>
<!ATTLIST shelf %both; side (left|right) "left">
<!ELEMENT item (#PCDATA)> <!ATTLIST item of IDREF #IMPLIED price CDATA "5 &euro; &amp; more">
<!ELEMENT drawer (shelf*)> <!ATTLIST drawer %both;>
<!ELEMENT key EMPTY> <!ATTLIST key opens IDREF #REQUIRED>
<!ELEMENT till ANY>
%parts;
<!ELEMENT box (part, part)> <!ELEMENT empty EMPTY>
"""


def shop() -> Schema:
    return Schema.from_text(SHOP_DTD, name="shop")


def test_declarations_are_read() -> None:
    schema = shop()
    assert schema.root == "shop"
    assert list(schema.elements) == [
        "shop", "owner", "em", "shelf", "item", "drawer", "key", "till", "part", "box", "empty",
    ]  # fmt: skip
    assert schema.elements["shop"].model == Group(
        "sequence",
        (
            Name("owner"),
            Group("choice", (Name("shelf"), Group("sequence", (Name("drawer"), Name("key")))), "+"),
            Name("till", "?"),
        ),
    )
    assert schema.elements["owner"].content == "mixed"
    assert schema.children("shelf") == ("item", "empty", "box")
    assert schema.elements["shelf"].attributes == (
        Attribute("id", "ID", required=True),
        Attribute("note"),
        Attribute("side", "enumeration", ("left", "right"), default="left"),
    )
    assert schema.elements["shop"].attributes[0].fixed == 'a "b" c'
    assert schema.elements["item"].attributes[1].default == "5 € & more"
    assert schema.elements["owner"].attributes[1] == Attribute("form", "NOTATION", ("gif", "png"))
    assert schema.unparsed_entities == ("logo",)
    assert read_dtd(SHOP_DTD).notations == ("gif", "png")


@pytest.mark.parametrize("line_end", ["\r", "\r\n"])
def test_line_ends_do_not_matter(tmp_path: Path, line_end: str) -> None:
    path = tmp_path / "shop.dtd"
    path.write_bytes(SHOP_DTD.replace("\n", line_end).encode())
    assert Schema.from_dtd(path).elements == shop().elements


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        ("", "utf-8"), ("", "utf-8-sig"), ("", "utf-16"), ("", "latin-1"), ("UTF-8", "utf-8"),
        ("ISO-8859-1", "latin-1"), ("windows-1252", "cp1252"), ("iso-8859-15", "iso-8859-15"), ("UTF-16", "utf-16"),
    ],
)  # fmt: skip
def test_encodings(tmp_path: Path, declared: str, encoding: str) -> None:
    path = tmp_path / "a.dtd"
    declaration = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    path.write_bytes(f"{declaration}<!-- für --><!ELEMENT jürgen EMPTY>".encode(encoding))
    assert Schema.from_dtd(path).root == "jürgen"


def test_parameter_entities_stand_anywhere() -> None:
    schema = Schema.from_text(
        """<!ENTITY % prefix "p."> <!ENTITY % a "%prefix;a"> <!ENTITY % kind "CDATA"> <!ENTITY % how "#REQUIRED">
        <!ENTITY % quoted '"v"'> <!ENTITY % values "(x | y)"> <!ENTITY % b "b | c"> <!ENTITY % x "(%b;)*">
        <!ELEMENT %a; %x;> <!ATTLIST %a; q %kind; %how; r %values; %quoted;> <!ENTITY % %a; "EMPTY">
        <!ELEMENT b %p.a;> <!ELEMENT c (%b;)>"""
    )
    assert schema.root == "p.a"
    assert schema.children("p.a") == ("b", "c")
    assert schema.elements["p.a"].attributes == (
        Attribute("q", required=True),
        Attribute("r", "enumeration", ("x", "y"), default="v"),
    )
    assert schema.elements["b"].content == "empty"


def test_values_of_entities_are_replaced_when_declared() -> None:
    declarations = read_dtd(
        """<!ENTITY % one "a"> <!ENTITY % two "%one;, b"> <!ENTITY % one "z">
        <!ENTITY % whole "&#60;!ELEMENT whole (&#37;two;)&#x3E;"> %whole;"""
    )
    assert declarations.elements["whole"].model == Group("sequence", (Name("a"), Name("b")))


def test_conditional_sections() -> None:
    text = """<!ENTITY % draft "INCLUDE"> <!ENTITY % final "IGNORE">
    <![%draft;[ <!ELEMENT a (b?)> <![IGNORE[ <!ELEMENT a EMPTY> ]]> ]]>
    <![ %final; [ <!ELEMENT a ANY> <![INCLUDE[ <!ELEMENT b (a)> ]]> " ' <!-- ]]>
    <![INCLUDE[<![INCLUDE[<!ELEMENT b EMPTY>]]><!ELEMENT c (a)>]]>"""
    declarations = read_dtd(text)
    assert declarations.elements["a"].model == Group("sequence", (Name("b", "?"),))
    assert declarations.elements["b"].content == "empty"
    assert list(declarations.elements) == ["a", "b", "c"]


# Parts in other files.


def in_directory(directory: Path, **texts: str) -> Path:
    """Files a.dtd, b.ent, … in a directory; `__` in a name stands for `/`, the last `_` for a dot."""
    for name, text in texts.items():
        head, _, suffix = name.replace("__", "/").rpartition("_")
        path = directory / f"{head}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return directory / "main.dtd"


def test_parts_are_found_beside_the_file_that_names_them(tmp_path: Path) -> None:
    path = in_directory(
        tmp_path,
        main_dtd='<!ENTITY % m SYSTEM "mod/first.mod"> %m; <!ELEMENT main (one, two, three)>',
        mod__first_mod='<!ENTITY % s PUBLIC "-//x" "second.mod"> %s; <!ELEMENT one EMPTY>',
        mod__second_mod="<?xml version='1.0' encoding='utf-8'?><!ENTITY % t SYSTEM 'deep/third.ent'>"
        "<!ELEMENT two EMPTY>%t;",
        mod__deep__third_ent="<!ELEMENT three (#PCDATA)>",
    )
    schema = Schema.from_dtd(path)
    assert list(schema.elements) == ["two", "three", "one", "main"]
    assert schema.missing == ()
    assert schema.name == "main"


def test_a_url_means_the_copy_beside_the_dtd(tmp_path: Path) -> None:
    path = in_directory(
        tmp_path,
        main_dtd='<!ENTITY % e PUBLIC "-//x//EN" "http://example.org/dtd/v1/parts.ent"> %e; <!ELEMENT a (b)>',
        parts_ent="<!ELEMENT b EMPTY>",
    )
    assert Schema.from_dtd(path).elements["b"].declared


def test_a_part_that_is_not_on_disk_is_left_out_and_listed(tmp_path: Path) -> None:
    path = in_directory(
        tmp_path,
        main_dtd='<!ENTITY % e SYSTEM "http://example.org/e.ent"> <!ENTITY % f SYSTEM "f.ent"> %e;%f; <!ELEMENT a ANY>',
    )
    assert Schema.from_dtd(path).missing == ("http://example.org/e.ent", "f.ent")
    with pytest.raises(DocumentError, match=r"'%x;' is not declared.*\n.*f\.ent; put them beside it"):
        read_dtd('<!ENTITY % f SYSTEM "f.ent"> %f; <!ELEMENT a %x;>')
    assert read_dtd('<!ENTITY % f SYSTEM "f.ent"> %f; <!ELEMENT a EMPTY>').missing == ("f.ent",)


def test_parts_lie_in_the_directory_or_in_those_that_are_named(tmp_path: Path) -> None:
    path = in_directory(
        tmp_path,
        inner__main_dtd='<!ENTITY % e SYSTEM "../outer/e.ent"> %e; <!ELEMENT a ANY>',
        outer__e_ent="<!ELEMENT e EMPTY>",
    ).parent.joinpath("inner", "main.dtd")
    secret = tmp_path / "outer" / "secret"
    secret.write_text("<!ELEMENT secret EMPTY>")
    assert Schema.from_dtd(path).missing == ("../outer/e.ent",)
    assert "e" in Schema.from_dtd(path, directories=[tmp_path / "outer"]).elements
    for system in (str(secret), secret.as_uri(), "../outer/secret", "..", "", "%00"):
        path.write_text(f'<!ENTITY % e SYSTEM "{system}"> %e; <!ELEMENT a ANY>')
        assert list(Schema.from_dtd(path).elements) == ["a"], system


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import socket

    def connect(*_: object) -> None:
        raise AssertionError("the reader opened a connection")

    monkeypatch.setattr(socket.socket, "connect", connect)
    path = in_directory(tmp_path, main_dtd='<!ENTITY % e SYSTEM "http://127.0.0.1:9/e.ent"> %e; <!ELEMENT a ANY>')
    assert Schema.from_dtd(path).missing == ("http://127.0.0.1:9/e.ent",)


def test_an_external_part_inside_a_value(tmp_path: Path) -> None:
    path = in_directory(
        tmp_path,
        main_dtd='<!ENTITY % e SYSTEM "e.ent"> <!ENTITY % v "(%e;)"> <!ELEMENT a %v;>',
        e_ent="b | c",
    )
    assert Schema.from_dtd(path).children("a") == ("b", "c")


# What is refused.


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "declares no element", 1),
        ("<!ELEMENT a EMPTY>\n<!ELEMENT b (c", "does not end", 2),
        ("<!ELEMENT a EMPTY", "does not end", 1),
        ("\r\n\r<!ELEMENT a (b,c|d)>", "mixes or misplaces", 3),
        ("<!ELEMENT a (b c)>", "mixes or misplaces", 1),
        ("<!ELEMENT a (b))>", "expected the end of the declaration of 'a'", 1),
        ("<!ELEMENT a ()>", "mixes or misplaces", 1),
        ("<!ELEMENT a (b) *>", "no meaning at '*>'", 1),
        ("<!ELEMENT a (b>", "not closed", 1),
        ("<!ELEMENT a b>", "one group", 1),
        ("<!ELEMENT a (b;c)>", "no meaning at ';c", 1),
        ("<!ELEMENT a (b,\n&c)>", "no meaning at '&c)>'", 2),
        ("<!ELEMENT (b)>", "no element name", 1),
        ("<!ELEMENT 1a EMPTY>", "'1a' is no element name", 1),
        ("<!ELEMENT a (b | #PCDATA)*>", "(#PCDATA | a | b)*", 1),
        ("<!ELEMENT a (#PCDATA | b)>", "(#PCDATA | a | b)*", 1),
        ("<!ELEMENT a (#PCDATA, b)*>", "(#PCDATA | a | b)*", 1),
        ("<!ELEMENT a (#PCDATA | b+)*>", "(#PCDATA | a | b)*", 1),
        ("<!ELEMENT a (#PCDATA)+>", "(#PCDATA | a | b)*", 1),
        ("<!ELEMENT a EMPTY>\n<!ATTLIST a b CDATA>", "attributes of 'a'", 2),
        ("<!ELEMENT a EMPTY>\n<!ATTLIST a b TEXT #IMPLIED>", "'TEXT' is no type", 2),
        ("<!ATTLIST a ( CDATA #IMPLIED>", "no attribute name", 1),
        ("<!ATTLIST a b (x,y) #IMPLIED>", "not separated by '|'", 1),
        ("<!ATTLIST a b (x|) #IMPLIED>", "no meaning at ')'", 1),
        ("<!ATTLIST a b NOTATION x #IMPLIED>", "a list of notations", 1),
        ("<!ATTLIST a b CDATA '&no;'>", "'&no;' is not declared", 1),
        ("<!ATTLIST a b CDATA '&#0;'>", "no character has the number 0", 1),
        ("<!ENTITY % x>", "'x' has no value", 1),
        ("<!ENTITY % x 'a' 'b'>", "expected the end of the entity 'x'", 1),
        ("<!ENTITY % x SYSTEM x>", "a system identifier in quotes", 1),
        ("<!ENTITY x SYSTEM 'x' NDATA>", "no notation name", 1),
        ("<!NOTATION x>", "no identifier", 1),
        ("<!ELEMENT a (%x;)>", "'%x;' is not declared", 1),
        ("<!ENTITY % x 'b,\n|'>\n<!ELEMENT a\n (%x;)>", "in the text of '%x;'", 4),
        ("<!ENTITY % x '<!ELEMENT a'>\n%x; EMPTY>", "begins and ends in different entities", 2),
        ("<![OTHER[<!ELEMENT a EMPTY>]]>", "INCLUDE[ or IGNORE[", 1),
        ("<![INCLUDE[\n<!ELEMENT a EMPTY>", "expected ']]>'", 2),
        ("<![IGNORE[ <!ELEMENT a EMPTY>", "expected ']]>'", 1),
        ("<!ELEMENT a EMPTY>]]>", "expected a declaration", 1),
        ("<!-- a", "expected '-->'", 1),
        ("<?a >", "expected '?>'", 1),
        ("<!DOCTYPE a>", "expected ELEMENT", 1),
        ("a", "expected a declaration", 1),
        ("<!ELEMENT a (a)>", "always contains itself", 0),
        ("<!ELEMENT a (b)><!ELEMENT b (c|a)><!ELEMENT c (b)>", "always contains itself", 0),
    ],
)
def test_invalid_dtd_is_refused(text: str, message: str, line: int) -> None:
    with pytest.raises(DocumentError, match=re.escape(message)) as caught:
        Schema.from_text(text)
    assert caught.value.line == line
    assert not isinstance(caught.value, LimitError)


def test_the_fault_is_in_the_part_and_its_line(tmp_path: Path) -> None:
    path = in_directory(
        tmp_path,
        main_dtd='<!ENTITY % e SYSTEM "e.ent">\n\n\n%e;',
        e_ent="<!ELEMENT a EMPTY>\r\n<!ELEMENT bé (b>",
    )
    with pytest.raises(DocumentError, match=r"TC280 e\.ent: the content model of 'bé'") as caught:
        Schema.from_dtd(path)
    assert (caught.value.line, caught.value.offset) == (2, 36)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"TC283 none\.dtd: cannot be read: No such file"):
        Schema.from_dtd(tmp_path / "none.dtd")
    with pytest.raises(DocumentError, match="cannot be read"):
        Schema.from_dtd(tmp_path)
    with pytest.raises(DocumentError, match="no file can have this name"):
        Schema.from_dtd(str(tmp_path) + "/\0")
    path = tmp_path / "a.dtd"
    path.write_bytes(b"<?xml encoding='utf-8'?>\n<!-- f\xfcr -->")
    with pytest.raises(DocumentError, match="these bytes are not utf-8") as caught:
        Schema.from_dtd(path)
    assert (caught.value.line, caught.value.offset) == (2, 31)
    path.write_bytes(b"<?xml encoding='rot13'?><!ELEMENT a EMPTY>")
    with pytest.raises(DocumentError, match="'rot13' is not known"):
        Schema.from_dtd(path)


def test_unknown_root_is_refused() -> None:
    with pytest.raises(DocumentError, match="no element 'z'"):
        Schema.from_text("<!ELEMENT a EMPTY>", root="z")


def laughs(reference: str, levels: int) -> str:
    """Entities e0, e1, …, each ten times the one before; `reference` is % or &."""
    mark, sign = ("% ", "%") if reference == "%" else ("", "&")
    text = f"<!ENTITY {mark}e0 '" + "x" * 1000 + "'>"
    for level in range(1, levels):
        text += f"<!ENTITY {mark}e{level} '{f'{sign}e{level - 1};' * 10}'>"
    return text


@pytest.mark.parametrize(
    "text",
    [
        laughs("%", 12),
        laughs("&", 12) + "<!ATTLIST a b CDATA '&e11;'>",
        laughs("&", 12).replace("x" * 1000, "") + "<!ATTLIST a b CDATA '&e11;'>",
        "<!ELEMENT a " + "(" * 100_000 + ">",
        "<!ENTITY % x '&#37;x;'> %x;",
        "<!ENTITY % x '&#37;y;'> <!ENTITY % y '&#37;x;'> <!ELEMENT a %x;>",
        "<!ENTITY x '&y;'> <!ENTITY y '&x;'> <!ATTLIST a b CDATA '&x;'>",
        "".join(f"<!ENTITY % e{n} '&#37;e{n + 1};'>" for n in range(300)) + "%e0;",
        "<!ENTITY % x ' '><!ENTITY % y '" + "&#37;x;" * 100_000 + "'>" + "%y;" * 100,
    ],
    ids=[
        "laughs", "laughs in a value", "hollow laughs", "parentheses", "itself", "each other", "in a value", "chain",
        "many",
    ],
)  # fmt: skip
def test_bombs_are_refused(text: str) -> None:
    with pytest.raises(LimitError) as caught:
        Schema.from_text(text)
    assert caught.value.code == "TC380"


def test_a_file_that_is_too_large_and_one_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from treecast.workload import dtd_source

    monkeypatch.setattr(dtd_source, "FILE_BYTES_MAX", 1 << 20)
    path = tmp_path / "a.dtd"
    path.write_bytes(b"<!ELEMENT a EMPTY>" + b" " * (1 << 20))
    with pytest.raises(LimitError, match="more than 1 MiB"):
        Schema.from_dtd(path)
    with pytest.raises(DocumentError, match="no plain file"):
        Schema.from_dtd("/dev/zero")
    (tmp_path / "e.ent").symlink_to("/dev/zero")
    path.write_text('<!ENTITY % e SYSTEM "e.ent"> %e; <!ELEMENT a ANY>')
    assert Schema.from_dtd(path).missing == ("e.ent",)


# lxml as the oracle.


def agree(declarations: Declarations, grammar: Any) -> int:
    """Compare every element and attribute with what lxml read; the number of attributes compared."""
    contents = {"undefined": None, "empty": "empty", "any": "any", "mixed": "mixed", "element": "children"}
    elements = {f"{e.prefix}:{e.name}" if e.prefix else e.name: e for e in grammar.iterelements()}
    assert set(declarations.elements) == {name for name, e in elements.items() if contents[e.type] is not None}
    compared = 0
    for name, element in declarations.elements.items():
        theirs = elements[name]
        assert element.content == contents[theirs.type], name
        attributes = {f"{a.prefix}:{a.name}" if a.prefix else a.name: a for a in theirs.iterattributes()}
        assert {a.name for a in element.attributes} == set(attributes), name
        for attribute in element.attributes:
            other = attributes[attribute.name]
            assert attribute.kind.lower() == other.type, (name, attribute)
            assert list(attribute.values) == other.values(), (name, attribute)
            assert attribute.required == (other.default == "required"), (name, attribute)
            assert (attribute.fixed is not None) == (other.default == "fixed"), (name, attribute)
            # lxml keeps the references of defaults.
            if attribute.default is not None and "&" not in (other.default_value or "&"):
                assert attribute.default.split() == other.default_value.split(), (name, attribute)
            compared += 1
    return compared


def test_lxml_reads_the_same() -> None:
    texts = [SHOP_DTD]
    texts += [resources.files("treecast.workload").joinpath(f"{n}.dtd").read_text("utf-8") for n in ("news", "records")]
    compared = [agree(read_dtd(text), etree.DTD(io.BytesIO(text.encode()))) for text in texts]
    assert min(compared) > 10


def test_lxml_reads_the_same_of_real_dtds(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    if data_directory is None:
        leave_out("DTDs in use, as we read them against lxml")
        return
    compared = 0
    for path in sorted((data_directory / "dtd").rglob("*.dtd")):
        try:
            grammar = etree.DTD(str(path))
        except etree.DTDParseError:
            with pytest.raises(DocumentError):
                read_dtd_file(path)
            continue
        if next(iter(grammar.iterelements()), None) is not None:
            compared += agree(read_dtd_file(path), grammar)
    assert compared > 10_000
