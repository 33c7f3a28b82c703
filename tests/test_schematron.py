"""Schematron as a source of subscriptions: the verdicts are those of lxml's isoschematron, and hostile schemas are
bounded.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from generators.invoices import InvoiceDrawer
from generators.mixed_documents import draw_mixed_document
from generators.schemas import SchemaDrawer
from lxml import etree
from oracles.iso_schematron import IsoSchematron, lxml_counts

from treecast import QueryError
from treecast.cli import main
from treecast.inputs.schematron import Checker, Failure, parse_rules, read_rules
from treecast.inputs.schematron.expression import format_expression, parse_expression
from treecast.inputs.subscriptions import read_subscriptions

EXAMPLE = Path(__file__).parents[1] / "examples/schematron/invoice.sch"


def schema(content: str, attributes: str = "") -> bytes:
    return f'<schema xmlns="http://purl.oclc.org/dsdl/schematron" {attributes}>{content}</schema>'.encode()


def query_of(context: str, test: str, lets: str = "") -> str:
    rule = f'<rule context="{context}">{lets}<assert test="{test}">m</assert></rule>'
    [assertion] = parse_rules(schema(f"<pattern>{rule}</pattern>"))
    return assertion.query


# --- against isoschematron --------------------------------------------------------------------------------------------


@pytest.mark.house
def test_the_queries_of_the_example_say_what_isoschematron_says() -> None:
    """Judged by lxml's XPath: what a query selects is what breaks its assertion."""
    rules, oracle = read_rules(str(EXAMPLE)), IsoSchematron(EXAMPLE.read_bytes())
    drawer, seen = InvoiceDrawer(Random("invoices")), Counter[str]()
    for _ in range(150):
        document = etree.ElementTree(etree.fromstring(drawer.invoice()))
        expected = oracle.counts(document)
        assert lxml_counts(rules, document) == expected
        seen += expected
    assert {each.test for each in rules} - set(seen) <= {"val:Name | val:Company = //agg:Line/val:Reason"}


@pytest.mark.house
def test_a_checker_says_where_and_what_as_isoschematron_does() -> None:
    rules, oracle = read_rules(str(EXAMPLE)), IsoSchematron(EXAMPLE.read_bytes())
    checker, drawer, failures = Checker(rules), InvoiceDrawer(Random("places")), 0
    for _ in range(80):
        data = drawer.invoice()
        document = etree.ElementTree(etree.fromstring(data))
        expected = Counter(
            (test, message, line_of(document, place)) for test, message, place in oracle.failures(document)
        )
        found = checker.failures(data)
        assert Counter((each.assertion.test, each.message, line(each)) for each in found) == expected
        assert {each.assertion.id for each in found} == set(checker.index.match(data))
        failures += len(found)
    assert failures > 200


def line_of(document: Any, location: str) -> int:
    """The line of an element; 0 for other items, of which the oracle does not say which one it is."""
    if not location or "@" in location:
        return 0
    [element] = document.xpath(location)
    line: int = element.sourceline
    return line


def line(failure: Failure) -> int:
    return failure.place.line if failure.place.kind == "element" else 0


@pytest.mark.house
def test_drawn_schemas_say_what_isoschematron_says() -> None:
    """Contexts that overlap, so that the first rule counts; variables in brackets and outside."""
    random, broken = Random("schemas"), 0
    for _ in range(25):
        source = SchemaDrawer(random).schema()
        rules, oracle = parse_rules(source), IsoSchematron(source)
        checker = Checker(rules)
        for _ in range(4):
            data = draw_mixed_document(random, namespaces=False, elements_max=15)
            document = etree.ElementTree(etree.fromstring(data))
            expected = oracle.counts(document)
            assert lxml_counts(rules, document) == expected, f"{source.decode()} on {data!r}"
            found = Counter(each.assertion.test for each in checker.failures(data))
            assert found == expected, f"{source.decode()} on {data!r}"
            broken += expected.total()
    assert broken > 100


# --- what becomes of a rule -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "test", "query"),
    [
        ("line", "@price", "//line[not(@price)]"),
        ("/order/line", "not(@free)", "/order/line[@free]"),
        ("/", "order", "/self::node()[not(order)]"),
        ("@x | a//b", "1", "//@x[not(1)] | //a//b[not(1)]"),
        ("a", "not(count(b))", "//a[boolean(count(b))]"),
        ("a", "b[@k = current()/@k]", "//a[not(b[@k = ../@k])]"),
        ("a", "//b[@k = current()/@k]", "//a[not(//b/@k = @k)]"),
        ("node()", "b", "//node()[not(self::text())][not(b)]"),
    ],
)
def test_an_assertion_selects_what_breaks_it(context: str, test: str, query: str) -> None:
    assert query_of(context, test) == query


def test_the_first_rule_of_a_pattern_takes_an_item() -> None:
    rules = "".join(f'<rule context="{each}"><assert test="x">m</assert></rule>' for each in ("a[1]", "b/a | c", "*"))
    queries = [each.query for each in parse_rules(schema(f"<pattern>{rules}</pattern>"))]
    taken = "self::node()[count(. | ../a[1]) = count(../a[1])]"
    assert queries == [
        "//a[1][not(x)]",
        f"//b/a[not({taken})][not(x)] | //c[not(x)]",
        f"//*[not({taken})][not(self::a[parent::b] or self::c)][not(x)]",
    ]


def test_variables_of_every_level() -> None:
    lets = '<let name="own" value="@k"/><let name="more" value="concat($own, $all)"/>'
    rule = f'<rule context="a">{lets}<assert test="$more = $all">m</assert></rule>'
    source = schema(f'<let name="all" value="x/@y"/><pattern><let name="here" value="$all"/>{rule}</pattern>')
    [assertion] = parse_rules(source)
    assert assertion.query == "//a[not(concat(@k, /x/@y) = /x/@y)]"


def test_phases_and_namespaces() -> None:
    everything = read_rules(str(EXAMPLE), phase="#ALL")
    assert [each.id for each in read_rules(str(EXAMPLE), phase="quick")] == ["H1", "H2", "H3", "H4", "H5", "H6"]
    assert len(read_rules(str(EXAMPLE))) == len(everything) == 30
    assert everything.namespaces["agg"] == "urn:example:aggregate"
    table = read_subscriptions(EXAMPLE)
    assert table["id"].to_pylist() == [each.id for each in everything]
    assert dict(table["namespaces"][0].as_py()) == everything.namespaces


def test_messages_keep_their_expressions() -> None:
    messages = {each.id: each.plain_message for each in read_rules(str(EXAMPLE))}
    assert messages["H2"] == "The invoice {val:ID} is of the future: {val:IssueDate}."
    assert messages["H6"] == "The root element is {name(.)}, not inv:Invoice."
    assert messages["H3"].endswith("It is issued on {val:IssueDate} and due on {val:DueDate}.")


# --- hostile schemas -------------------------------------------------------------------------------------------------


def rule_with(lets: str, test: str = "a") -> bytes:
    return schema(f'<pattern><rule context="a">{lets}<assert test="{test}">m</assert></rule></pattern>')


DOUBLES = '<let name="v0" value="@x"/>' + "".join(
    f'<let name="v{n}" value="concat($v{n - 1}, $v{n - 1})"/>' for n in range(1, 60)
)
ABSTRACT = '<rule abstract="true" id="{0}"><extends rule="{1}"/></rule>'
CHAIN = "".join(ABSTRACT.format(f"r{n}", f"r{n + 1}") for n in range(60))
TWICE = "".join(
    f'<rule abstract="true" id="r{n}"><extends rule="r{n + 1}"/><extends rule="r{n + 1}"/></rule>' for n in range(25)
)
END = '<rule abstract="true" id="r{0}"><assert test="b">m</assert></rule><rule context="a"><extends rule="r0"/></rule>'
HOSTILE: dict[str, tuple[bytes, str]] = {
    "a variable of itself": (rule_with('<let name="a" value="$b"/><let name="b" value="$a"/>'), "TC196"),
    "variables that double": (rule_with(DOUBLES, "$v59"), "TC329"),
    "an unknown variable": (rule_with("", "$nobody"), "TC196"),
    "an abstract rule of itself": (
        schema("<pattern>" + ABSTRACT.format("r0", "r0") + END.format(1) + "</pattern>"),
        "TC195",
    ),
    "a chain of abstract rules": (schema(f"<pattern>{CHAIN}{END.format(60)}</pattern>"), "TC329"),
    "abstract rules that double": (schema(f"<pattern>{TWICE}{END.format(25)}</pattern>"), "TC329"),
    "an abstract pattern of itself": (
        schema('<pattern abstract="true" id="p" is-a="p"/><pattern is-a="p"/>'),
        "TC195",
    ),
    "brackets": (rule_with("", "(" * 3000 + "1" + ")" * 3000), "TC196"),
    "signs": (rule_with("", "-" * 3000 + "1"), "TC196"),
    "a long expression": (rule_with("", "a" * 70_000), "TC196"),
    "a DTD": (b'<!DOCTYPE schema [<!ENTITY x "y">]>' + schema("&x;"), "TC191"),
    "no XML": (b"<schema", "TC191"),
    "another language": (b"<xsl/>", "TC195"),
    "another binding": (schema("", 'queryBinding="xslt2"'), "TC195"),
    "another file": (schema('<include href="/etc/passwd"/>'), "TC195"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_refused(name: str) -> None:
    data, code = HOSTILE[name]
    with pytest.raises(QueryError) as caught:
        parse_rules(data, name="rules.sch")
    assert caught.value.code == code
    assert "rules.sch: " in str(caught.value)


LONG = "x" * 2000
UNANSWERABLE = {
    "key('x', 'y')": "TC196",
    "count(1)": "TC196",
    "id('x')": "TC196",
    "nobody:b": "TC196",
    "namespace::x": "TC196",
    "string(b)/c": "TC196",
    "starts-with(b)": "TC196",
    "/".join(["b"] * 300): "TC329",
    "|".join(f"b{n}" for n in range(300)): "TC329",
}
PLACES = {
    "context": '<rule context="a[{}]">\n<assert test="b">m</assert></rule>',
    "assert": '<rule context="a">\n<assert test="{}">m</assert></rule>',
    "report": '<rule context="a">\n<report test="{}">m</report></rule>',
    "let": '<rule context="a">\n<let name="v" value="{}"/><assert test="$v">m</assert></rule>',
    "value-of": '<rule context="a">\n<assert test="b">m <value-of select="{}"/></assert></rule>',
    "diagnostic": '<rule context="a">\n<assert test="b" diagnostics="d">m</assert></rule>',
}
WHERE = {
    "context": "line 2: context",
    "report": "line 3: report",
    "value-of": "line 3: message of the assert",
    "diagnostic": "line 3: message of the assert",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("expression", UNANSWERABLE, ids=lambda text: text[:20])
def test_what_a_checker_would_refuse_is_refused_where_it_is_read(expression: str, place: str) -> None:
    diagnostics = f'<diagnostics><diagnostic id="d"><value-of select="{expression}"/></diagnostic></diagnostics>'
    rule = PLACES[place].format(expression)
    source = schema(f"<pattern>\n{rule}</pattern>{diagnostics if place == 'diagnostic' else ''}")
    with pytest.raises(QueryError) as caught:
        parse_rules(source, name="rules.sch")
    error = caught.value
    assert error.code == UNANSWERABLE[expression]
    assert str(error).startswith(f"{error.code} rules.sch: {WHERE.get(place, 'line 3: assert')}: ")
    assert "--namespace" not in str(error)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('<ns prefix="x y" uri="urn:x"/>', "TC195 rules.sch: line 2: the prefix 'x y' is not a name"),
        ('<ns prefix="xml" uri="urn:x"/>', "TC195 rules.sch: line 2: the prefix 'xml' cannot be bound to 'urn:x'"),
        (
            f'<pattern><rule context="a"><assert id="{"x" * 2000}" test="b">m</assert></rule></pattern>',
            "TC329 rules.sch",
        ),
    ],
)
def test_names_that_no_index_takes_are_refused_with_their_line(content: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_rules(schema(f"\n{content}"), name="rules.sch")
    assert str(caught.value).startswith(message)


def test_expressions_are_written_as_they_were_meant() -> None:
    """The parser of rules and its writer: operators, names that are operators elsewhere, and the root."""
    several = ("(/) div 2", "- (1 + 2) * 3", "div div div", "a[*] * *", "(a | b)[1]/c//d", "//@*[. = 1]", "a = (b = c)")
    for text in several:
        once = format_expression(parse_expression(text))
        assert format_expression(parse_expression(once)) == once
        assert etree.XPath(text).path and etree.XPath(once)
    assert format_expression(parse_expression("(/) div 2")) == "(/) div 2"
    assert format_expression(parse_expression("a[ position( ) = 2 ] /b")) == "a[position() = 2]/b"


# --- from the command line --------------------------------------------------------------------------------------------

ORDERS = schema(
    '<pattern><rule context="line">'
    '<assert id="price" test="@price">The <name/> <value-of select="@id"/> has no price.</assert>'
    '<report id="large" test="@price &gt; 9" role="warning">much</report></rule></pattern>'
)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    (tmp_path / "r.sch").write_bytes(ORDERS)
    (tmp_path / "bad.xml").write_bytes(b"<order>\n<line id='a'/><line price='10'/><line id='&lt;b'/></order>")
    (tmp_path / "good.xml").write_bytes(b"<order><line id='a' price='1'/></order>")
    return tmp_path


def test_check_says_where_and_what(orders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(orders / name) for name in ("r.sch", "bad.xml", "good.xml")]
    assert main(["check", "--schematron", *files]) == 1
    shown = capsys.readouterr()
    bad = orders / "bad.xml"
    assert shown.out.splitlines() == [
        f"{bad}:2: price: The line a has no price. (/order[1]/line[1])",
        f"{bad}:2: price: The line <b has no price. (/order[1]/line[3])",
        f"{bad}:2: large: much (/order[1]/line[2])",
    ]
    assert shown.err.splitlines()[-1] == "2 documents, 2 rules: 1 break 3"


def test_check_writes_json_and_accepts_what_is_right(orders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", "--schematron", str(orders / "r.sch"), "--format", "json", "--quiet"]
    assert main([*arguments, str(orders / "good.xml")]) == 0
    assert main([*arguments, str(orders / "bad.xml")]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[2] == {
        "document": str(orders / "bad.xml"),
        "rule": "large",
        "line": 2,
        "path": "/order[1]/line[2]",
        "message": "much",
        "kind": "report",
        "role": "warning",
    }


def test_check_reports_documents_that_cannot_be_read(orders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (orders / "broken.xml").write_bytes(b"<order>")
    assert main(["check", "--schematron", str(orders / "r.sch"), str(orders / "broken.xml")]) == 1
    assert "broken.xml: TC209" in capsys.readouterr().err


def test_rules_are_subscriptions_everywhere(orders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "-s", str(orders / "r.sch"), str(orders / "bad.xml")]) == 0
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == ["price", "large"]
