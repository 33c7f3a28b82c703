"""What subscribers get is in canonical form: signxml and xmlsec1 verify XML signatures over it, in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from lxml import etree
from oracles import subtree_views, xml_signatures
from support.selective_trial import Trial, draw_document, visible_places

from treecast.selective.labelled import LabelledDocument

pytestmark = pytest.mark.house

PATHS = ["//a", "//b", "//n:d"]


def signed_info(whole: bytes) -> bytes:
    """In our canonical form, as everything else here that is signed."""
    document = LabelledDocument.read(whole)
    namespaces = {"ds": xml_signatures.DS}
    (found,) = document.preview(document.choose(["/ds:Signature/ds:SignedInfo"], namespaces=namespaces))
    return found


def draw(seed: int, *, exclude: list[str], comments: bool) -> tuple[str, dict[str, bytes]]:
    """A document in which whatever the group sees first of a subtree has an xml:id, and what a member sees of each."""
    text = draw_document(Random(seed), "SECRET").replace(" text ", "text &amp; more").replace("\n  ", "")
    root = subtree_views.read(text.encode())
    if not comments:
        etree.strip_tags(root, etree.Comment)
    visible = visible_places(root, PATHS, exclude)
    places = {one: place for place, one in enumerate(subtree_views.elements(root))}
    names = []
    for one, place in places.items():
        if place in visible and places.get(one.getparent()) not in visible:
            names.append(f"part-{place}")
            one.set("{http://www.w3.org/XML/1998/namespace}id", names[-1])
            if not comments:
                one.tail = None  # signxml would take the text behind an element for a part of it
    data = etree.tostring(root)
    trial = Trial({"desk": (PATHS, exclude)})
    trial.publish(data)
    return data.decode(), dict(zip(names, trial.members["desk"].fragments(), strict=True))


def test_signxml_accepts_what_members_get() -> None:
    references = 0
    for seed in range(15):
        document, parts = draw(seed, exclude=[], comments=False)
        if parts:
            references += len(parts)
            signature = xml_signatures.sign(document, parts, signed_info)
            assert xml_signatures.is_valid_to_signxml(signature, len(parts)), (seed, signature)
            name = max(parts)
            other = xml_signatures.sign(document, parts | {name: parts[name] + b" "}, signed_info)
            assert not xml_signatures.is_valid_to_signxml(other, len(parts)), "and nothing else"
    assert references > 30


@pytest.mark.parametrize("exclude", [[], ["//s"], ["//s", "//c"]])
def test_xmlsec1_accepts_what_members_get(exclude: list[str], tmp_path: Path, leave_out: Callable[[str], None]) -> None:
    """Comments, instructions and exclusions included: what is excluded is subtracted by a filter of xmlsec1."""
    if not xml_signatures.has_xmlsec1():
        leave_out(xml_signatures.LEFT_OUT)
        pytest.skip(xml_signatures.LEFT_OUT)
    references = 0
    subtract = " | ".join(exclude)
    for seed in range(8):
        document, parts = draw(seed, exclude=exclude, comments=seed % 2 == 0)
        if parts:
            references += len(parts)
            signature = xml_signatures.sign(document, parts, signed_info, subtract=subtract)
            assert xml_signatures.is_valid_to_xmlsec1(signature, tmp_path), (seed, signature)
    assert references > 12
    altered = signature.replace(b"<ds:DigestValue>", b"<ds:DigestValue>A", 1)
    assert not xml_signatures.is_valid_to_xmlsec1(altered, tmp_path), "and nothing else"
