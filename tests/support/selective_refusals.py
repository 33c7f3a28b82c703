"""What selective publishing refuses, for the golden errors: the first line says who refuses the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from support.selective_trial import Trial
from treecast.selective import parcels, subtrees
from treecast.selective.encoding import decode
from treecast.selective.folded import fold
from treecast.selective.key_chain import EPOCHS_MAX, chain_key
from treecast.selective.keys import Keys
from treecast.selective.labelled import LabelledDocument
from treecast.selective.package import decode_package, encode
from treecast.selective.policies import Policies
from treecast.serve.selective import publishers


def refuse_selective(data: bytes) -> None:
    first, _, rest = data.partition(b"\n")
    REFUSALS[first.decode()](rest)


def refuse_subtrees(data: bytes) -> None:
    """Read SSL, or a path, over a document of seven elements: 7{3{1,2},6{4,5}}."""
    text = data.decode().removesuffix("\n")
    document = LabelledDocument.read(b"<a><b x='1'><c/><d/></b><b><c/><d/></b></a>", spacing=1)
    with patch.object(subtrees, "SUBTREES_MAX", 5):
        if text.startswith("/"):
            document.choose(text.split(" without ")[:1], exclude=text.split(" without ")[1:])
        else:
            subtrees.Subtrees.parse(text, document.outline)


def _fold(data: bytes) -> None:
    fold(data)


def _decode(data: bytes) -> None:
    decode(data)


def _package(data: bytes) -> None:
    """Receive a package after something happened to it, or to the one who receives it."""
    trial = Trial({"desk": (["//b"], [])})
    member = trial.members["desk"]
    first = b"<a><b>1</b></a>"
    what = data.decode().strip()
    if what == "old":
        trial.publish(first)
        old = trial.publisher.package("desk")
        trial.publish(first.replace(b"1", b"2"))
        member.receive(old)
    trial.publisher.publish(first)
    trial.publisher.publish(first.replace(b"1", b"2"))
    if what == "unsigned":
        trial.publisher._signer = Ed25519PrivateKey.from_private_bytes(bytes(32))
    package = decode_package(trial.publisher.package("desk", since=1 if what == "gap" else 0))
    if what == "altered":
        package = replace(package, manifest=package.manifest[::-1])
    elif what == "epoch":
        package = replace(package, epoch=2)
    elif what == "astray":
        package = replace(package, group="other")
    member.receive(encode(package))


def _request(data: bytes) -> None:
    """Ask for a subtree, as a member or not."""
    document = LabelledDocument.read(b"<a><b/></a>", spacing=1)
    policies = Policies()
    policies.grant("desk", include=["//b"])
    policies.join("desk", "ann")
    member, _, text = data.decode().strip().partition(" ")
    policies.request("desk", member, text, document)


def _restore(data: bytes) -> None:
    Trial({}).publisher.restore(data)


def _epochs(data: bytes) -> None:
    chain_key(Keys(bytes(32)), "firm", "desk", EPOCHS_MAX + 1)


def _watches(data: bytes) -> None:
    trial = Trial({"desk": (["//b"], [])})
    trial.publisher.publish(b"<a><b>1</b></a>")
    with patch.object(parcels, "WATCHES_MAX", 0):
        parcels.Parcels(trial.publisher, "desk").watch(1)


def _publishers(data: bytes) -> None:
    """Ask a service for a document that it does not have, or for too many."""
    with TemporaryDirectory() as directory, patch.object(publishers, "DOCUMENTS_MAX", 0):
        service = publishers.Publishers(Path(directory) / "selective")
        if data.startswith(b"get"):
            service.get("firm")
        service.publish("firm", b"<firm/>")


REFUSALS: dict[str, Callable[[bytes], None]] = {
    "fold": _fold,
    "decode": _decode,
    "package": _package,
    "request": _request,
    "restore": _restore,
    "epochs": _epochs,
    "watches": _watches,
    "publishers": _publishers,
}
