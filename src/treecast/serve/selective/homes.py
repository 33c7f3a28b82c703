"""The directories behind `treecast selective`: that of a publisher, and that of a member of a group.

publisher   secret, signer (for nobody else's eyes), policies.json, state, out/GROUP/…: what is to be sent;
            watches.json, the subtrees that members have asked for in a network
member      member.json (its key), envelopes/EPOCH, packages/VERSION: what it has received, verified again when read;
            network: what it has received through a network, likewise
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from urllib.parse import quote

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from treecast import durable
from treecast.document import Limits
from treecast.errors import AccessError, QueryError, SnapshotError
from treecast.overlay.selective.member_peer import MemberPeer, MemberState
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.selective.assembly import WHOLE, Assembly
from treecast.selective.parcels import mailbox
from treecast.selective.policies import Effect, Policies, Policy
from treecast.selective.publisher import Publisher
from treecast.selective.subscriber import Subscriber
from treecast.serve.selective.forms import MemberAnswer

PRIVATE = 0o600


def file_name(name: str) -> str:
    """A name that somebody chose, as the name of a file."""
    return quote(name, safe=" ").replace(".", "%2E")


@dataclass(frozen=True)
class GroupState:
    """A group: what it may see, what that is in the document as it is, and who is a member."""

    group: str
    policy: Policy
    effect: Effect
    members: list[str]
    version: int
    epoch: int
    bytes: int


class PublisherHome:
    """The directory of a publisher; it is made if it is not there."""

    def __init__(self, directory: Path, name: str = "") -> None:
        """The document is called `name`, or else as the directory."""
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._state = directory / "state"
        policies = directory / "policies.json"
        fields = json.loads(policies.read_text("utf-8")) if policies.exists() else {}
        self.policies = Policies.from_fields(fields)
        secret = self._secret("secret", AESGCMSIV.generate_key(256))
        signer = self._secret("signer", Ed25519PrivateKey.generate().private_bytes_raw())
        self.publisher = Publisher(
            *(name or directory.resolve().name, self.policies),
            secret=secret,
            signer=Ed25519PrivateKey.from_private_bytes(signer),
        )
        if self._state.exists():
            self.publisher.restore(self._state.read_bytes())

    def _secret(self, name: str, new: bytes) -> bytes:
        path = self.directory / name
        if not path.exists():
            durable.write(path, new, mode=PRIVATE)
        return path.read_bytes()

    def grant(self, group: str, policy: Policy | None, members: Iterable[str] = ()) -> None:
        """Say what a group may see, if a policy is given, and who is a member. A refusal changes nothing.

        Raises QueryError, or AccessError (TC630) for a group that has no policy.
        """
        if policy is not None:
            policy.check_paths()
            self.publisher.check(group, policy)
            self.policies.put(group, policy)
        elif group not in self.policies.groups():
            raise AccessError("TC630 there is no such group: say what it may see", code="TC630")
        for member in members:
            self.policies.join(group, member)
        self._save_policies()

    def revoke(self, group: str, members: Sequence[str]) -> None:
        """Take members out of a group. Raises AccessError (TC630), and then all of them stay."""
        for member in members:
            self.policies.check(group, member)
        for member in members:
            self.policies.revoke(group, member)
        self._save_policies()

    def remove(self, group: str) -> None:
        """The group sees nothing from now on."""
        self.policies.remove(group)
        self._save_policies()

    def _save_policies(self) -> None:
        text = json.dumps(self.policies.to_fields(), indent=2, ensure_ascii=False)
        durable.write(self.directory / "policies.json", text.encode(), mode=PRIVATE)

    def publish(self, data: bytes | None) -> list[Path]:
        """Publish a version, or let changed policies take effect. Returns the packages that are to be sent."""
        versions = {group: self.version(group) for group in self.policies.groups()}
        changed_groups = self.advance(data)
        packages = []
        for group in changed_groups:
            directory = self.group_directory(group)
            path = directory / f"{self.version(group)}.package"
            durable.write(path, self.publisher.package(group, since=versions[group]))
            packages.append(path)
        for group in self.policies.groups():
            # Also where nothing has changed but the epoch: newcomers have the key of the new one only.
            durable.write(self.group_directory(group) / "all.package", self.publisher.package(group))
            for member in self.policies.members(group):
                epoch, envelope = self.publisher.envelope(group, member)
                path = self.group_directory(group) / f"{file_name(member)}.{epoch}.envelope"
                if not path.exists():
                    durable.write(path, envelope)
        return packages

    def advance(
        self, data: bytes | None, limits: Limits | None = None, *, groups: Collection[str] | None = None
    ) -> list[str]:
        """The same, for those who send it by themselves. Returns the groups whose view has changed.

        Without data the policies of `groups` take effect, or those of all.
        """
        changed_groups = self.publisher.refresh(groups) if data is None else self.publisher.publish(data, limits=limits)
        # Before anything can be sent: a number of a version must not be used for two views.
        durable.write(self._state, self.publisher.save(), mode=PRIVATE)
        return changed_groups

    def group_states(self) -> list[GroupState]:
        """Who may see what, and what that is in the document as it is."""
        publisher, policies = self.publisher, self.policies
        states = []
        for group in policies.groups():
            view = publisher.view(group) if publisher.has_view(group) else None
            states.append(
                GroupState(
                    group=group,
                    policy=policies.policy(group),
                    effect=self._effect(group),
                    members=policies.members(group),
                    version=self.version(group),
                    epoch=policies.epoch(group),
                    bytes=0 if view is None else sum(map(len, view.texts())),
                )
            )
        return states

    def _effect(self, group: str) -> Effect:
        document = self.publisher.document
        with suppress(QueryError):  # a policy that was saved by an older version, which let it through
            return Effect() if document is None else self.policies.effect(group, document)
        return Effect()

    def is_published(self, group: str) -> bool:
        """Whether the view of a group follows its policy; if not, it will with the next version."""
        document = self.publisher.document
        if document is None or not self.publisher.has_view(group):
            return False
        with suppress(QueryError):
            return self.publisher.view(group).shows(document, self.policies.subtrees(group, document))
        return False

    def watches(self) -> dict[str, dict[int, int]]:
        """Subtrees that have seals of their own in a network, by group (`Parcels.watches`)."""
        path = self.directory / "watches.json"
        fields = json.loads(path.read_text("utf-8")) if path.exists() else {}
        return {group: {int(id): version for id, version in ids.items()} for group, ids in fields.items()}

    def save_watches(self, watches: Mapping[str, Mapping[int, int]]) -> None:
        durable.write(self.directory / "watches.json", json.dumps(watches).encode(), mode=PRIVATE)

    def version(self, group: str) -> int:
        return self.publisher.version(group) if self.publisher.has_view(group) else 0

    def group_directory(self, group: str) -> Path:
        directory = self.directory / "out" / file_name(group)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def enrol(self, group: str, member: str, home: Path) -> None:
        """Make the directory of a member, with its key: a file to be handed over on a way that is safe."""
        make_member_home(home, self.member_fields(group, member))

    def member_fields(self, group: str, member: str, roots: Iterable[int] = (WHOLE,), edition: int = 0) -> MemberFields:
        """What a member has to know: its keys, and where its mail and its view are in a network. Raises AccessError."""
        epoch, envelope = self.publisher.envelope(group, member)
        return MemberFields(
            member=member,
            document=self.publisher.name,
            group=group,
            key=self.publisher.keys.member(member).hex(),
            public_key=self.publisher.public_key.hex(),
            mailbox=mailbox(self.publisher, member),
            roots=list(roots),
            edition=edition,
            epoch=epoch,
            envelope=envelope.hex(),
        )


class MemberFields(MemberAnswer, frozen=True):
    """The file of a member, as the door answers it: whoever has it is the member. `roots` are the elements of the view
    that it wants."""


def make_member_home(directory: Path, fields: MemberFields) -> None:
    """Make the directory of a member, or rewrite it for other wishes."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    durable.write(directory / "member.json", msgspec.json.format(msgspec.json.encode(fields)), mode=PRIVATE)
    MemberHome(directory).admit(fields.epoch, bytes.fromhex(fields.envelope))


class MemberHome:
    """The directory of a member."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for name in ("envelopes", "packages"):
            (directory / name).mkdir(exist_ok=True)
        try:
            self.fields = fields = msgspec.json.decode((directory / "member.json").read_bytes(), type=MemberFields)
            key, public_key = bytes.fromhex(fields.key), bytes.fromhex(fields.public_key)
            self.subscriber = Subscriber(fields.member, key, fields.document, fields.group, public_key)
        except (msgspec.MsgspecError, ValueError, TypeError):
            hint = "treecast selective subscribe makes one"
            raise SnapshotError(
                f"TC510 {directory} is not the directory of a member\n  hint: {hint}", code="TC510", hint=hint
            ) from None
        for path in (directory / "envelopes").iterdir():
            self.subscriber.admit(int(path.name), path.read_bytes())
        for path in sorted((directory / "packages").iterdir(), key=lambda path: int(path.name)):
            self.subscriber.receive(path.read_bytes())

    def admit(self, epoch: int, envelope: bytes) -> None:
        self.subscriber.admit(epoch, envelope)
        durable.write(self._directory / "envelopes" / str(epoch), envelope, mode=PRIVATE)

    def receive(self, data: bytes) -> bool:
        """Take a package; says whether it changed anything. What is refused is not kept."""
        is_new = self.subscriber.receive(data)
        if is_new:
            durable.write(self._directory / "packages" / str(self.subscriber.version), data)
        return is_new

    # -- in a network

    @property
    def member(self) -> str:
        return self.fields.member

    def make_peer(self, name: str, random: Random, brokers: Iterable[str], settings: SelectiveSettings) -> MemberPeer:
        """The member as a peer, with what it had when it was here last."""
        fields = self.fields
        key, public_key = bytes.fromhex(fields.key), bytes.fromhex(fields.public_key)
        assembly = Assembly(fields.member, key, fields.document, fields.group, public_key, fields.roots)
        return MemberPeer(
            *(name, random, assembly, fields.mailbox),
            brokers=brokers,
            settings=settings,
            edition=fields.edition,
            state=self._network_state(),
        )

    def _network_state(self) -> MemberState | None:
        path = self._directory / "network"
        if not path.exists():
            return None
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=MemberState)
        except msgspec.MsgspecError:
            return None  # it comes again

    def save_view(self, fragments: Sequence[bytes]) -> None:
        """Write what is seen to files, for other programs: view/1.xml and so on."""
        directory = self._directory / "view"
        directory.mkdir(mode=0o700, exist_ok=True)
        for number, fragment in enumerate(fragments, 1):
            durable.write(directory / f"{number}.xml", fragment, mode=PRIVATE)
        for path in directory.glob("*.xml"):
            if not path.stem.isdecimal() or int(path.stem) > len(fragments):
                path.unlink()

    def save_network(self, state: MemberState) -> None:
        durable.write(self._directory / "network", msgspec.msgpack.encode(state), mode=PRIVATE)
