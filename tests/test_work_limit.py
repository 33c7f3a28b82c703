"""Deciding a query is linear in the document; where it is not, the other subscriptions get their answers."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from generators.conditions import ConditionDrawer, draw_valued_document
from generators.paths_and_documents import chain
from support.rounds_conditions import condition_words
from test_evaluate import check_queries

import treecast
from treecast import _native
from treecast.cli.entry import main
from treecast.document import Limits
from treecast.index.explain import explain
from treecast.placement.router import Branch, ByFilters
from treecast.spark.batch.answer_form import DELIVERIES, MATCHES
from treecast.spark.batch.answers import answer

UNLIMITED = Limits(work_per_item_max=(1 << 32) - 1).native()
SMALLEST = Limits(work_per_item_max=1)


def nested(form: str, depth: int, axis: str = "descendant::") -> str:
    path = f"{axis}b"
    for _ in range(depth):
        path = f"{axis}b[{form.format(path)}]"
    return f"//b[{form.format(path)}]"


def elements(depth: int) -> bytes:
    return b"<b>" * depth + b"</b>" * depth


HEAVY = nested("{} and last() > 0][last()", 6)
"""Takes more than the smallest limit on DEEP, and says nothing about it otherwise."""
DEEP = elements(500)
LIGHT = "//b[b][last()]"


# --- what it costs ---------------------------------------------------------------------------------------------------

FORMS = [
    "contains({}, 'z') or last() = 999",
    "last() = 999 or starts-with({}, 'z')",
    "contains({}, 'z') or position() = 999",
    "not(contains({}, 'z')) and not(position() < 999)",
    "{} and last() = 999",
    "not(not({})) and last() = 999",
    "{} = 'z' or last() = 999",
    "contains({}/b, 'z') or last() = 999",
]


@pytest.mark.parametrize("axis", ["descendant::", ".//"])
@pytest.mark.parametrize("form", FORMS)
def test_steps_grow_with_the_document(form: str, axis: str) -> None:
    query = nested(form, 4, axis).encode()
    steps = [_native.testing.work(elements(depth), query, [], False, UNLIMITED) for depth in (62, 124, 248, 496)]
    assert math.log(steps[3] / steps[1], 4) < 1.2, steps


@pytest.mark.parametrize("axis", ["descendant::", ".//"])
@pytest.mark.parametrize("form", FORMS)
def test_steps_grow_with_the_query(form: str, axis: str) -> None:
    """Before, each bracket more took ten times as long."""
    steps = [
        _native.testing.work(elements(62), nested(form, depth, axis).encode(), [], False, UNLIMITED)
        for depth in (2, 4, 8, 12)
    ]
    assert steps[3] < 8 * steps[0], steps


def test_nested_conditions_against_lxml() -> None:
    random = Random("nested")
    decisions = 0
    for number in range(30):
        drawer = ConditionDrawer(random, condition_words(random, namespaces=False), depth_max=2, nesting=0.5)
        documents = [draw_valued_document(random, elements_max=30) for _ in range(5)]
        documents += [chain(random, random.choice((5, 15, 25)))]
        decisions += check_queries([drawer.query() for _ in range(30)], documents, reparse=number % 2 == 1)
    assert decisions == 30 * 30 * 6


# --- what is undecided -----------------------------------------------------------------------------------------------


@pytest.fixture
def index() -> treecast.Index:
    index = treecast.Index(limits=SMALLEST)
    index.add_many([("light", LIGHT), ("heavy", HEAVY), ("plain", "/b")])
    return index


def test_match_warns(index: treecast.Index) -> None:
    with pytest.warns(treecast.UndecidedWarning, match="TC340 the subscription 'heavy' is undecided") as caught:
        assert index.match(DEEP) == ["light", "plain"]
    warning = caught[0].message
    assert isinstance(warning, treecast.UndecidedWarning)
    assert (warning.code, warning.undecided) == ("TC340", ("heavy",))
    assert caught[0].filename == __file__
    copy = pickle.loads(pickle.dumps(warning))
    assert (str(copy), copy.undecided) == (str(warning), warning.undecided)


def test_a_warning_may_be_an_error(index: treecast.Index) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", treecast.UndecidedWarning)
        assert index.match(b"<b/>") == ["plain"]
        with pytest.raises(treecast.UndecidedWarning) as caught:
            index.match(DEEP)
    assert caught.value.undecided == ("heavy",)


def test_the_next_document_is_decided(index: treecast.Index) -> None:
    with pytest.warns(treecast.UndecidedWarning):
        index.match(DEEP)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert index.match(elements(20)) == ["light", "heavy", "plain"]


def test_the_limit_can_be_raised() -> None:
    index = treecast.Index()
    index.add("heavy", HEAVY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert index.match(DEEP) == ["heavy"]


@pytest.mark.parametrize("threads", [1, 3])
def test_match_many(index: treecast.Index, threads: int) -> None:
    documents = [elements(20), DEEP, b"<b/>", DEEP]
    with pytest.warns(treecast.UndecidedWarning, match="1 subscriptions, 2 documents in all") as caught:
        table = index.match_many(documents, threads=threads)
    assert len(caught) == 1
    assert table.column("document").to_pylist() == [0, 0, 0, 1, 1, 2, 3, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table, errors = index.match_many([*documents, b"<"], threads=threads, on_error="report")
    assert table.num_rows == 8
    assert errors.column_names == ["document", "code", "message", "offset", "subscription"]
    rows = [(row["document"], row["code"], row["offset"], row["subscription"]) for row in errors.to_pylist()]
    assert rows[:2] == [(1, "TC340", None, "heavy"), (3, "TC340", None, "heavy")]
    assert rows[2][0] == 4
    assert rows[2][3] is None
    assert "'heavy'" in errors["message"][0].as_py()


def test_match_batches(index: treecast.Index) -> None:
    found = list(index.match_batches([b"<b/>"] * 5000 + [DEEP], on_error="report"))
    errors = pa.concat_tables([errors for _, errors in found]).to_pylist()
    assert [(row["document"], row["subscription"]) for row in errors] == [(5000, "heavy")]
    with pytest.warns(treecast.UndecidedWarning):
        assert sum(table.num_rows for table in index.match_batches([DEEP])) == 2


def test_match_part(index: treecast.Index) -> None:
    part = index.match_part([b"<b/>", DEEP], report=True)
    assert part.matches.to_pylist() == [["plain"], ["light", "plain"]]
    assert [(row, id, error.code) for row, id, error in part.undecided] == [(1, "heavy", "TC340")]
    with pytest.raises(treecast.LimitError, match="'heavy'") as caught:
        index.match_part([DEEP], report=False)
    assert caught.value.code == "TC340"


@pytest.mark.parametrize("deliver", ["document", "elements"])
def test_render(deliver: Any) -> None:
    index = treecast.Index(limits=SMALLEST)
    index.add("light", "/b")
    index.add("heavy", HEAVY, deliver=deliver)
    index.add("heavy too", HEAVY + "[1]", deliver=deliver)
    index.add("last", "/b")
    made = index.render(DEEP)
    assert [one.subscription for one in made] == ["light", "heavy", "heavy too", "last"]
    assert [one.refused and one.refused.code for one in made] == [None, "TC340", "TC340", None]
    assert made[1].payload == b""
    assert made[3].payload == DEEP
    part = index.render_part([b"<b/>", DEEP], report=False).deliveries.to_pylist()
    assert [row["code"] for row in part[1]] == [None, "TC340", "TC340", None]
    assert len(part[0]) == 2


def test_a_step_list_is_limited() -> None:
    index = treecast.Index(limits=SMALLEST)
    index.add("steps", f"from /b drop {HEAVY}/b")
    index.add("built", f"for $b in $msg{HEAVY} return <o/>")
    assert {one.subscription: one.refused and one.refused.code for one in index.render(DEEP)}["steps"] == "TC340"


def test_explain(index: treecast.Index) -> None:
    """What is undecided is said to be, with its parts as far as they are known."""
    explanation = index.explain(DEEP, "heavy")
    assert explanation.matched is None
    assert "TC340" in explanation.undecided and "work_per_item_max" in explanation.undecided
    assert str(explanation).startswith(f"may or may not match {HEAVY}\n  undecided: TC340 ")
    query = f"/b[count(//*) > 2 and {HEAVY} and count(//b) > 5000]"
    (condition,) = explain(DEEP, query, limits=SMALLEST).steps[0].conditions
    assert [part.holds for part in condition.parts] == [True, None, False]
    assert [part.reason.partition(";")[0] for part in condition.parts] == [
        "count(//*) is 500",
        "deciding takes too many steps",
        "count(//b) is 500",
    ]
    assert explain(DEEP, HEAVY).matched


def test_saved_indexes_keep_the_limit(index: treecast.Index, tmp_path: Path) -> None:
    index.save(tmp_path / "new.tcx")
    with pytest.warns(treecast.UndecidedWarning):
        treecast.Index.load(tmp_path / "new.tcx").match(DEEP)
    limits = {name: value for name, value in vars(Limits()).items() if name != "work_per_item_max"}
    about = {"engine": "auto", "namespaces": {}, "limits": limits, "entities": None}
    index._native.save(str(tmp_path / "old.tcx").encode(), json.dumps(about).encode())
    assert treecast.Index.load(tmp_path / "old.tcx").match(DEEP) == ["light", "heavy", "plain"]


def test_routers_let_it_through() -> None:
    router = ByFilters({0: HEAVY, 1: "/c"}, (Branch(-1, frozenset({0}), 0), Branch(-1, frozenset({1}), 1)))
    assert router.bound(limits=SMALLEST).route([DEEP, b"<c/>"]) == [(0,), (1,)]


def test_answers_of_workers(index: treecast.Index) -> None:
    documents = pa.array([b"<b/>", DEEP, b"<"])
    (report,) = answer(index, documents, None, MATCHES.with_errors(), silent_rows={1})
    rows = [[(row["subscription"], (row["error"] or {}).get("code")) for row in one] for one in report.to_pylist()]
    assert rows[:2] == [[("plain", None)], [(None, "TC340"), ("light", None), ("plain", None)]]
    assert "'heavy'" in report.to_pylist()[1][0]["error"]["message"]
    (profile,) = answer(index, documents, None, MATCHES.with_accounts())
    assert [one["matches"] for one in profile.to_pylist()] == [["plain"], [None, "light", "plain"], []]
    assert [one["error"] and one["error"]["code"] for one in profile.to_pylist()] == [None, "TC340", "TC209"]
    for form in (MATCHES, DELIVERIES):
        with pytest.raises(treecast.LimitError, match="'heavy'") as caught:
            list(answer(index, documents[:2], None, form))
        assert caught.value.code == "TC340"
    (payloads,) = answer(index, documents, None, DELIVERIES.with_errors())
    codes = [one["error"] and one["error"]["code"] for one in payloads.to_pylist()[1]["deliveries"]]
    assert codes == [None, "TC340", None]


@pytest.mark.parametrize("render", [False, True])
def test_command_line(render: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deep.xml").write_bytes(DEEP)
    arguments = ["match", "-q", "/b", "-q", HEAVY, str(tmp_path / "deep.xml"), "--work-per-item-max", "1"]
    assert main([*arguments, *(["--render"] if render else [])]) == 1
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert "TC340" in err
    assert main([*arguments[:-1], "64"]) == 0
