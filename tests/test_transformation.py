"""Transformations as text: what is read, the canonical form, what it matches, what is refused."""

from __future__ import annotations

import pickle

import pytest

import treecast
from treecast.index.explain import Condition
from treecast.query import Transformation
from treecast.query.shapes import Change, Choice, Flwr, For, OrderBy, StepList, Where

NAMESPACES = {"x": "urn:x"}

# as written, canonical, the matching part
READ = [
    ("for $n in $msg/a return $n", "for $n in $msg/a return $n", "/a"),
    (
        'for $n in $msg/nitf where $n/head/@area = "SF" and $n//t/@type = "Stock" return <s> {$n/b} {$n/c} </s>',
        'for $n in $msg/nitf where $n/head/@area="SF" and $n//t/@type="Stock" return <s>{$n/b}{$n/c}</s>',
        '/nitf[head/@area="SF"][.//t/@type="Stock"]',
    ),
    (
        "<w>\n{ for $n in $msg/w/a where $n/b return {$n/c} }\n</w>",
        "<w>{for $n in $msg/w/a where $n/b return {$n/c}}</w>",
        "/w/a[b]",
    ),
    # several variables: a tree below one path, further trees as absolute predicates
    (
        "for $a in $msg/x, $b in $a/y where $b/z return $a",
        "for $a in $msg/x for $b in $a/y where $b/z return $a",
        "/x[y[z]]",
    ),
    ("for $a in //x for $b in //y return $b/@k", "for $a in $msg//x for $b in $msg//y return $b/@k", "//x[//y]"),
    (
        "for $a in $msg/x, $b in $a/y where $a/@k = 1 or $b/z return $b",
        "for $a in $msg/x for $b in $a/y where $a/@k=1 or $b/z return $b",
        "/x[@k=1][y] | /x[y[z]]",
    ),
    (
        "for $a in $msg/x, $b in $msg/y where not($a/k and $b/l) return $b",
        "for $a in $msg/x for $b in $msg/y where not($a/k and $b/l) return $b",
        "/x[not(k)][/y] | /x[/y[not(l)]]",
    ),
    (
        "for $a in $msg/x, $b in $msg/y where $a/k | $b/k = 2 return $b",
        "for $a in $msg/x for $b in $msg/y where $a/k | $b/k=2 return $b",
        "/x[k=2][/y] | /x[/y[k=2]]",
    ),
    # unions, filters, positions
    ("for $n in $msg/a | $msg/b return $n", "for $n in $msg/a | $msg/b return $n", "/a | /b"),
    (
        "for $n in $msg/a[2] where $n[@q]/b return $n",
        "for $n in $msg/a[2] where $n/self::*[@q]/b return $n",
        "/a[2][self::*[@q]/b]",
    ),
    ("for $n in $msg/a[//b] return $n", "for $n in $msg/a[.//b] return $n", "/a[.//b]"),
    (
        "for $t in $msg/a/text() where $t = 'x' return $t",
        'for $t in $msg/a/text() where $t="x" return $t',
        '/a/text()[.="x"]',
    ),
    ("for $i in $msg/a/@i where $i < 3 return $i", "for $i in $msg/a/@i where $i<3 return $i", "/a/@i[.<3]"),
    # lets stand where they are used
    (
        "for $a in $msg/x let $t := $a/t, $u := concat('-', $t) where $t/@y return <o k='{$u}'>{$t/v}</o>",
        'for $a in $msg/x where $a/t/@y return <o k="{concat("-", $a/t)}">{$a/t/v}</o>',
        "/x[t/@y]",
    ),
    ("let $d := $msg/a return <x>{$d/b}</x>", "<x>{$msg/a/b}</x>", "/a/b"),
    (
        "for $a in $msg/x let $t := $a/y for $a in $msg/z return $t",
        "for $a in $msg/x for $a-1 in $msg/z return $a/y",
        "/x[/z]",
    ),
    (
        "let $l := 'en' for $a in $msg/x[@k = $l] let $n := 2, $m := $n where $a/y > $m return $l",
        'for $a in $msg/x[@k="en"] where $a/y>2 return "en"',
        '/x[@k="en"][y>2]',
    ),
    ("for $a in $msg/x let $u := ($a/y | $a/z) return $u/w", "for $a in $msg/x return $a/y/w | $a/z/w", "/x"),
    # counts are positions
    (
        "for $a in $msg/x where count($a/y) > 1 and 2 >= count($a//z) return $a",
        "for $a in $msg/x where $a/y[position()>1] and not($a/descendant::z[position()>2]) return $a",
        "/x[y[position()>1]][not(descendant::z[position()>2])]",
    ),
    (
        "for $a in $msg/x let $c := count($a/y[@k]) where $c = 2 or count($msg/x/z) != 3 order by $c return $c",
        "for $a in $msg/x where $a/y[@k][last()=2] or not($msg/x/z[last()=3]) order by count($a/y[@k]) "
        "return count($a/y[@k])",
        "/x[y[@k][last()=2] or not(/x/z[last()=3])]",
    ),
    (
        "for $a in $msg/x where count($a/y/z | $a/@k) >= 1 and count($a/@q) = 0 and count($a/y) return $a",
        "for $a in $msg/x where $a/y/z | $a/@k and not($a/@q) and $a/y return $a",
        "/x[y/z | @k][not(@q)][y]",
    ),
    # a string is that of the first item
    (
        "for $a in $msg/x where string($a/y) = 'k' and 'l' != string($a//z) and string($a/@q) < 3 return $a",
        'for $a in $msg/x where $a/y[1]="k" and not($a/descendant::z[1]="l") and $a/@q<3 return $a',
        '/x[y[1]="k"][not(descendant::z[1]="l")][@q<3]',
    ),
    (
        "for $a in $msg/x let $s := string($a/y[@k]) where $s = '' or string($a) != '' or contains($s, 'm') return $s",
        'for $a in $msg/x where not($a/y[@k][1]!="") or $a!="" or contains($a/y[@k], "m") return string($a/y[@k])',
        '/x[not(y[@k][1]!="") or .!="" or contains(y[@k], "m")]',
    ),
    # clauses in any order
    (
        "for $a in $msg/x where $a/@k = 1 let $t := string($a/t) for $b in $a/y where $b/z order by $t return $b",
        "for $a in $msg/x where $a/@k=1 for $b in $a/y where $b/z order by string($a/t) return $b",
        "/x[@k=1][y[z]]",
    ),
    # without any for, conditions are those of a choice
    (
        "let $t := $msg/x/y, $u := $t/@k where $u = 1 where not($t/z) order by $u return <o>{$t}</o>",
        "if ($msg/x/y/@k=1) then if (not($msg/x/y/z)) then <o>{$msg/x/y}</o> else () else ()",
        "/x/y[/x/y/@k=1][not(/x/y/z)]",
    ),
    # comments are white space
    (
        "(: it's (: one :) <x> :) for(::)$a (: \" :) in $msg/(: :)x return (: {} :) <o>(: text :){(: none :)}</o>",
        "for $a in $msg/x return <o>(: text :){}</o>",
        "/x",
    ),
    ("drop //a (: these :), //b", "drop //a | //b", "/*"),
    ("for $d in $msg return <x>{$d/a}</x>", "for $document in $msg return <x>{$msg/a}</x>", "/*"),
    ("for $a in $msg/x for $b in $a return $b", "for $a in $msg/x return $a", "/x"),
    # what binds: the outermost fors; without any, the paths that are delivered
    ("<x>{$msg/t}{for $n in $msg/a return $n/b}</x>", "<x>{$msg/t}{for $n in $msg/a return $n/b}</x>", "/a"),
    ("let $d := $msg/a return $d/b", "{$msg/a/b}", "/a/b"),
    ("let $v := 'k' return ($v, $msg/a)", '("k", $msg/a)', "/a"),
    ("<x>{$msg/t}{string($msg/u)}</x>", "<x>{$msg/t}{string($msg/u)}</x>", "/t | /u"),
    (
        "if ($msg/a = 1) then for $b in $msg/b return $b else for $c in $msg/c return $c",
        "if ($msg/a=1) then for $b in $msg/b return $b else for $c in $msg/c return $c",
        "/b[/a=1] | /c[not(/a=1)]",
    ),
    (
        "for $n in $msg/a order by $n/@k descending empty greatest, count($n/b) return ($n/c, 'd', 1.50)",
        'for $n in $msg/a order by $n/@k descending empty greatest, count($n/b) return ($n/c, "d", "1.5")',
        "/a",
    ),
    # constructors
    (
        "for $n in $msg/a return <x> &#32;y<![CDATA[<z>]]>{{ }} <!--c--><?p q?>  </x>",
        "for $n in $msg/a return <x>&#32; y&lt;z>{{ }}&#32;<!--c--><?p q?></x>",
        "/a",
    ),
    (
        "for $n in $msg/a return <x a='1{$n/@b}&quot;' b=\"\">{attribute c {$n/d, 2}}</x>",
        'for $n in $msg/a return <x a="1{$n/@b}&quot;" b="">{attribute c {($n/d, "2")}}</x>',
        "/a",
    ),
    ("for $n in $msg/x:a return <x:b/>", "for $n in $msg/x:a return <x:b/>", "/x:a"),
    # lists
    ("drop //a,//b ;", "drop //a | //b", "/*"),
    (
        "from /x:a[b=1] drop //c/@d; keep //text(); rename //e to x:f; unwrap //g",
        "from /x:a[b=1] drop //c/@d; keep //text(); rename //e to x:f; unwrap //g",
        "/x:a[b=1]",
    ),
]


@pytest.mark.parametrize(("text", "canonical", "matching"), READ, ids=lambda text: text[:40])
def test_read(text: str, canonical: str, matching: str) -> None:
    transformation = treecast.parse(text, namespaces=NAMESPACES)
    assert isinstance(transformation, Transformation)
    assert str(transformation) == canonical
    again = treecast.parse(canonical, namespaces=NAMESPACES)
    assert again == transformation and hash(again) == hash(transformation)
    assert pickle.loads(pickle.dumps(transformation)) == transformation
    assert transformation.text == text
    assert str(transformation.matching) == str(treecast.parse(matching, namespaces=NAMESPACES))


def test_prefixes_of_constructors_reach_paths() -> None:
    text = '<o xmlns:p="urn:p" xmlns="urn:d">{for $n in $msg/p:a/b where $n/@p:c return <p:q/>}</o>'
    matching = treecast.parse(text).matching
    assert [(step.uri, step.local) for step in matching.tree[0].steps] == [("urn:p", "a"), ("urn:d", "b")]
    undone = '<o xmlns="">{for $n in $msg/a return $n/y:b}</o>'
    matching = treecast.parse(undone, namespaces={"": "urn:y", "y": "urn:y"}).matching
    assert matching.tree[0].steps[0].uri == ""


def test_equal_whatever_the_names() -> None:
    one = treecast.parse("for $n in $msg/x:a return <b>{$n/c}</b>", namespaces={"x": "urn:x"})
    assert one == treecast.parse("for $item in $msg/y:a return <b> {$item/c} </b>", namespaces={"y": "urn:x"})
    assert one != treecast.parse("for $n in $msg/x:a return <b>{$n/d}</b>", namespaces={"x": "urn:x"})
    assert one != treecast.parse("for $n in $msg/x:a return <b>{$n/c}</b>", namespaces={"x": "urn:z"})


def test_tree() -> None:
    shape = treecast.parse(
        "for $a in $msg/x, $b in $a/y where $b/z order by $a/k return if ($b/q) then <r/> else ($a, 'v')"
    ).tree
    assert isinstance(shape, Flwr)
    kinds = [type(clause) for clause in shape.clauses]
    assert kinds == [For, For, Where, OrderBy]
    second = shape.clauses[1]
    assert isinstance(second, For)
    assert (second.variable, second.name, second.paths[0].variable) == (1, "b", 0)
    assert isinstance(shape.body, Choice)
    steps = treecast.parse("from /a drop //b; rename //c to d").tree
    assert isinstance(steps, StepList) and steps.start is not None
    assert [change.kind for change in steps.changes] == ["drop", "rename"]
    assert isinstance(steps.changes[1], Change) and steps.changes[1].name is not None
    assert steps.changes[1].name.local == "d"


REFUSED = [
    ("for $n in $msg/a where $n/b = 'x&amp;y' return $n", "TC114", "&amp;", "the character itself"),
    ("for $n in $msg/a return <x>{$n}", "TC114", "x", "</x>"),
    ("for $n in a/b return $n", "TC104", "a/b", "$msg/a/b"),
    ("for $n in $msg/a where b = 1 return $n", "TC104", "b", "$n/b"),
    ("for $n in $msg/a return b", "TC104", "b", "$n/b"),
    ("for $n in $msg/a return $m", "TC113", "$m", "$msg, $n"),
    ("for $msg in $msg/a return $msg", "TC113", "$msg", "another name"),
    ("for $n in $msg/a let $v := <x/> return $v/b", "TC113", "$v", "paths that it was built from"),
    ("for $n in $msg/a let $l := 'x&amp;y' where $n/b = $l return $n", "TC113", "$l", "characters themselves"),
    ("for $n in $msg/a let $l := <x/> where $n/b = $l return $n", "TC113", "$l", "built from"),
    ("for $n in $msg/a where $n/b = 'it''s' return $n", "TC101", "''", "the other kind"),
    ("for $n in $msg/a where $n/b = ('x', 'y') return $n", "TC101", ",", "'or'"),
    ("for $n in ($msg/a, $msg/b) return $n", "TC101", ",", "'|'"),
    ("for $n in $msg/a where some $b in $n/b satisfies $b = 1 return $n", "TC116", "some", "b = 1"),
    ("for $n in $msg/a where $n/b[. = $n/c] return $n", "TC113", "$n", "'where'"),
    ("for $n in $msg/a where return $n", "TC101", "return", "$n/a"),
    ("for $n in $msg/a order $n/b return $n", "TC101", "$n/b", "order by"),
    ("for $n in $msg/a return $n/@b/string()", "TC103", "string(", "string(//a)"),
    ("for $n in doc('x')/a return $n", "TC103", "doc", "$msg"),
    ("for $n in $msg/a return fn:string($n)", "TC103", "fn:string", "string("),
    ("for $n in $msg/a return if ($n/b) then 1", "TC101", "", "else ()"),
    ("for $n in $msg/a return if $n/b then 1 else 2", "TC101", "$n/b", "if ("),
    ("for n in $msg/a return 1", "TC101", "n in", "$n"),
    ("for $p:n in $msg/a return 1", "TC113", "$p:n", "colon"),
    ("for $n in $msg/a return <x>{$n</x>", "TC101", "</x>", "braces"),
    ("for $n in $msg/a return <x/ >", "TC114", "/ >", "'/>'"),
    ("for $n in $msg/a return <x (: :) y='1'/>", "TC105", "(:", "leave it out"),
    ("for $n in $msg/a return $n;", "TC101", ";", "leave it out"),
    ("for $n in $msg/a return <x>{attribute xmlns {'u'}}</x>", "TC114", "xmlns", "direct constructor"),
    ("declare namespace p = 'u'; for $n in $msg/p:a return $n", "TC116", "declare", "namespaces"),
    ("rename //a/@b to xmlns", "TC117", "xmlns", "another name"),
    ("for $n in $msg/a where position() = 1 return $n", "TC104", "position()", "$n/a[position() = 1]"),
    ("for $n in $msg/a where $msg return $n", "TC107", "$msg", ""),
    ("for $n in $msg/a return string()", "TC116", "string()", "string($n)"),
    ("for $n in $msg/a return concat($n/b)", "TC116", "concat($n/b)", "string("),
    ("for $n in $msg/a return element b {1}", "TC116", "element", "direct constructor"),
    ("for $n in $msg/a return <x a='{<b/>}'/>", "TC116", "<b/>", "{$n/a}"),
    ("for $n in $msg/a return <x a='1' a='2'/>", "TC114", "a", "leave one out"),
    ("for $n in $msg/a return <x a='{$n}' xmlns:p='urn:p'/>", "TC114", "xmlns:p", "first"),
    ("for $n in $msg/a return <p:x/>", "TC109", "p", "namespaces="),
    ("for $n in $msg/a return <x>}</x>", "TC114", "}", "}}"),
    ("for $n in $msg/a return <x>&nbsp;</x>", "TC114", "&nbsp;", "&amp;"),
    ("for $n in $msg/a return <x><!-- -- --></x>", "TC114", "--", "one '-'"),
    ("for $n in $msg/a return <x><?w?x?></x>", "TC114", "<?w", "<?target text?>"),
    ("for $n in $msg/a return <x><?w?</x><y/>", "TC114", "<?w", "<?target text?>"),
    ("for $n in $msg/a return (: no (: end :) 1", "TC101", "(:", ":)"),
    ("for $n in $msg/a, $b in $n/c | $msg/d return $b", "TC116", "$b in $n/c | $msg/d", "of its own"),
    ("for $n in $msg/a group by $n/b return $n", "TC116", "group", "nest"),
    ("for $n in $msg/a", "TC101", "", "return"),
    ("let $n := 1 return $n", "TC115", "", "for $n in"),
    ("drop img", "TC104", "img", "//img"),
    ("rename //a b", "TC101", "b", "to e"),
    ("rename //a/text() to b", "TC117", "text()", "the element"),
    ("from /a", "TC117", "", "drop"),
    ("from /a/@b drop //c", "TC117", "@b", "at the element"),
    ("drop //a; shift //b", "TC117", "shift", "unwrap"),
]


@pytest.mark.parametrize(("text", "code", "caret", "hint"), REFUSED, ids=lambda text: text[:50])
def test_refused(text: str, code: str, caret: str, hint: str) -> None:
    with pytest.raises(treecast.QueryError) as caught:
        treecast.parse(text)
    error = caught.value
    assert error.code == code
    assert text.encode()[error.position :].decode().startswith(caret)
    assert error.hint and hint in error.hint
    index = treecast.Index()
    with pytest.raises(treecast.QueryError):
        index.add("one", text)
    assert len(index) == 0


def test_limits() -> None:
    doubling = "for $n in $msg/a " + " ".join(
        f"let $v{i + 1} := ($v{i}, $v{i})" if i else "let $v1 := ('a', 'b')" for i in range(40)
    )
    with pytest.raises(treecast.LimitError) as caught:
        treecast.parse(f"{doubling} return $v40")
    assert caught.value.code == "TC327"
    deep = "for $n in $msg/a return " + "<x>" * 100 + "</x>" * 100
    with pytest.raises(treecast.LimitError):
        treecast.parse(deep)
    steps = "; ".join(["drop //a"] * 257)
    with pytest.raises(treecast.LimitError):
        treecast.parse(steps)
    for text in ("rename //a to {}", "for $n in $msg/a return <{}/>", "for $n in $msg/a return <x {}='1'/>"):
        treecast.parse(text.replace("{}", "x" * 1024))
        with pytest.raises(treecast.LimitError):
            treecast.parse(text.replace("{}", "x" * 1025))
    chain = "if ($n/b) then 1 else " * 60
    assert treecast.parse(f"for $n in $msg/a return {chain} 2")


def test_matched_like_any_other() -> None:
    index = treecast.Index(namespaces=NAMESPACES)
    index.add_many([(f"t{i}", text) for i, (text, _, _) in enumerate(READ)])
    plain = treecast.Index(namespaces=NAMESPACES)
    plain.add_many([(f"t{i}", matching) for i, (_, _, matching) in enumerate(READ)])
    for document in (
        b"<a><b/><c/></a>",
        b"<x k='1'><y><z/></y></x>",
        b"<x><y/><k>2</k></x>",
        b'<nitf><head area="SF"/><t type="Stock"/></nitf>',
        b"<w><a><b/></a></w>",
        b"<a i='2'>x</a>",
        b"<x:a xmlns:x='urn:x'><b>1</b></x:a>",
    ):
        assert index.match(document) == plain.match(document)
    index.remove("t0")
    assert "t0" not in index.match(b"<a/>")


def test_explained_by_its_where_clause() -> None:
    text = 'for $n in $msg/a where $n/@b = 1 and not($n/c = "x") return <d>{$n}</d>'
    missed = treecast.Index()
    missed.add("t", text)
    explanation = missed.explain(b"<a b='2'/>", "t")
    assert explanation.failed is not None
    assert explanation.failed.text == "$n/@b = 1"
    explanation = missed.explain(b"<a b='1'><c>x</c></a>", "t")
    assert explanation.failed is not None
    assert explanation.failed.text == 'not($n/c = "x")'
    assert missed.explain(b"<a b='1'/>", "t").matched


def stopped_by(condition: Condition) -> str:
    """The condition because of which its one operand is nothing."""
    (operand,) = condition.operands
    assert operand.miss is not None
    assert operand.miss.condition is not None
    return operand.miss.condition.text


def test_explained_by_its_later_fors() -> None:
    index = treecast.Index()
    index.add("t", "for $a in $msg/a, $b in $a/b where $b/@k = 'x' and count($b/c) > 1 return $b")
    failed = index.explain(b"<a><b k='y'/></a>", "t").failed
    assert failed is not None
    assert failed.text == "$b in $a/b"
    assert stopped_by(failed) == "$b/@k = 'x'"
    assert failed.reason == "/a[1]/b[1] comes so far, but $b/@k = 'x' is false: /a[1]/b[1]/@k is \"y\""
    failed = index.explain(b"<a><b k='x'><c/></b></a>", "t").failed
    assert failed is not None
    assert stopped_by(failed) == "count($b/c) > 1"
    assert failed.reason.endswith("[position()>1] is false: it is number 1 of 1")
    failed = index.explain(b"<a><d/></a>", "t").failed
    assert failed is not None
    assert failed.reason == "there is none; no element is called b"
    assert index.explain(b"<a><b k='x'><c/><c/></b></a>", "t").matched
