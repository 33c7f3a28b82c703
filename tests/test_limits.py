"""The page of limits says what the code does, and no other page of the guide says it again."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from treecast.cli.entry import build_parser
from treecast.document import Limits
from treecast.index import CACHE_BYTES_MAX
from treecast.model import DeliveryLimits

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "guide"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, " KiB": 1 << 10, " MiB": 1 << 20}
SIZE = r"(\d[\d,]*)( [KM]iB|[KM]?)"
ROW = re.compile(rf"^\| `(\w+_max)` \| {SIZE} \|.*\|$", re.MULTILINE)


def to_number(digits: str, unit: str) -> int:
    return int(digits.replace(",", "")) * UNITS[unit]


def page_limits(heading: str) -> dict[str, int]:
    """The rows of one table of the page."""
    section = re.split(r"^## ", (GUIDE / "limits.md").read_text("utf-8"), flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(f"{heading}\n"))
    return {name: to_number(digits, unit) for name, digits, unit in ROW.findall(text)}


def defaults(settings: Any) -> dict[str, int]:
    return {field.name: getattr(settings, field.name) for field in fields(settings)}


def native_limits(header: str, name: str) -> dict[str, int]:
    """The fields of a native struct of limits: numbers, or numbers shifted."""
    (body,) = re.findall(rf"^struct {name} {{\n(.*?)^}};", (ROOT / "native" / header).read_text("utf-8"), re.M | re.S)
    found = re.findall(r"^    uint32_t (\w+) = ([\d']+)u?(?: << (\d+))?;", body, re.MULTILINE)
    return {field: int(number.replace("'", "")) << int(shift or 0) for field, number, shift in found}


def native_constants(*headers: str) -> dict[str, int]:
    """The limits that are constants of native classes."""
    text = "".join((ROOT / "native" / header).read_text("utf-8") for header in headers)
    constants = re.findall(r"^    static constexpr uint\d+_t (\w+_max) = ([\d']+)u?(?: << (\d+))?;", text, re.MULTILINE)
    return {name: int(number.replace("'", "")) << int(shift or 0) for name, number, shift in constants}


def test_the_page_has_every_limit() -> None:
    assert page_limits("Documents") == defaults(Limits())
    assert page_limits("Deliveries") == defaults(DeliveryLimits())
    assert page_limits("The cache") == {"cache_bytes_max": CACHE_BYTES_MAX}
    holders = (
        "machines/label.hpp",
        "evaluate/shared_terms.hpp",
        "evaluate/terms.hpp",
        "evaluate/columns.hpp",
        "engines/lazydfa_run.hpp",
    )
    assert page_limits("Expressions") == native_constants(*holders)
    assert page_limits("Queries") == native_limits("query/query.hpp", "QueryLimits")
    assert page_limits("Regular expressions") == native_limits("regex/regex.hpp", "RegexLimits")
    assert page_limits("Transformations") == native_limits("query/transformation.hpp", "TransformationLimits")


def test_the_help_of_the_command_line_has_the_same_defaults() -> None:
    verb = build_parser()._subparsers._group_actions[0].choices["match"]  # type: ignore[union-attr,index]
    limits = defaults(Limits()) | defaults(DeliveryLimits())
    for action in verb._actions:
        if action.dest in limits:
            (shown,) = re.findall(rf"default {SIZE}$", action.help)
            assert to_number(*shown) == limits[action.dest], action.dest


def test_other_pages_leave_values_to_that_page() -> None:
    """`cache_bytes_max` (256 MiB unless given) would be a second home; a setting that is shown, `= "64M"`, is not."""
    names = "|".join(defaults(Limits()) | defaults(DeliveryLimits()) | {"cache_bytes_max": 0})
    again = re.compile(rf"`[^`]*({names}|payload-bytes-max)`,? \(?{SIZE}", re.MULTILINE)
    for page in (*GUIDE.glob("*.md"), ROOT / "README.md"):
        if page.name != "limits.md":
            assert not again.findall(page.read_text("utf-8")), page
