"""Nothing that a group can observe depends on what it does not see: two worlds are compared, byte by byte."""

from __future__ import annotations

import pytest
from support.selective_trial import Trial
from support.selective_worlds import interference_round

pytestmark = pytest.mark.house


def test_what_is_hidden_changes_nothing_that_can_be_observed() -> None:
    assert sum(interference_round(seed) for seed in range(40)) > 100


INDENTED = b"""<firm>
  <staff>
    <name>Ida</name>HIDDEN
    <note>She said yes,HIDDEN and no.</note>
    <list>HIDDEN</list>HIDDEN
  </staff>
</firm>"""


def test_indentation_does_not_tell_that_something_is_hidden() -> None:
    """Written as an editor would, none, one or many hidden elements leave the same, also within text."""
    seen = set()
    for count in range(4):
        inner = b"\n      <pay>9</pay>" * count + b"\n    " * (count > 0)
        pieces = (b"\n    <pay/>" * count, b" <pay/>" * count, inner, b"\n    <pay/>" * count)
        data = INDENTED
        for piece in pieces:
            data = data.replace(b"HIDDEN", piece, 1)
        trial = Trial({"desk": (["//staff"], ["//pay"])})
        seen.add(trial.publish(data)["desk"])
    assert len(seen) == 1
