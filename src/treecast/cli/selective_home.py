"""The directories behind `treecast selective`: that of a publisher, and that of a member of a group.

publisher   secret, signer (for nobody else's eyes), policies.json, state, out/GROUP/…: what is to be sent
member      member.json (its key), envelopes/EPOCH, packages/VERSION: what it has received, verified again when read
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from treecast import durable
from treecast.errors import SnapshotError
from treecast.selective.policies import Policies
from treecast.selective.publisher import Publisher
from treecast.selective.subscriber import Subscriber

PRIVATE = 0o600


def file_name(name: str) -> str:
    """A name that somebody chose, as the name of a file."""
    return quote(name, safe=" ").replace(".", "%2E")


class PublisherHome:
    """The directory of a publisher; it is made if it is not there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._state = directory / "state"
        policies = directory / "policies.json"
        fields = json.loads(policies.read_text("utf-8")) if policies.exists() else {}
        self.policies = Policies.from_fields(fields)
        secret = self._secret("secret", AESGCMSIV.generate_key(256))
        signer = self._secret("signer", Ed25519PrivateKey.generate().private_bytes_raw())
        self.publisher = Publisher(
            directory.resolve().name, self.policies, secret=secret, signer=Ed25519PrivateKey.from_private_bytes(signer)
        )
        if self._state.exists():
            self.publisher.restore(self._state.read_bytes())

    def _secret(self, name: str, new: bytes) -> bytes:
        path = self.directory / name
        if not path.exists():
            durable.write(path, new, mode=PRIVATE)
        return path.read_bytes()

    def save_policies(self) -> None:
        text = json.dumps(self.policies.to_fields(), indent=2, ensure_ascii=False)
        durable.write(self.directory / "policies.json", text.encode(), mode=PRIVATE)

    def publish(self, data: bytes | None) -> list[Path]:
        """Publish a version, or let changed policies take effect. Returns the packages that are to be sent."""
        versions = {group: self.version(group) for group in self.policies.groups()}
        changed = self.publisher.refresh() if data is None else self.publisher.publish(data)
        # Before anything can be sent: a number of a version must not be used for two views.
        durable.write(self._state, self.publisher.save(), mode=PRIVATE)
        written = []
        for group in changed:
            directory = self.group_directory(group)
            path = directory / f"{self.version(group)}.package"
            durable.write(path, self.publisher.package(group, since=versions[group]))
            written.append(path)
        for group in self.policies.groups():
            # Also where nothing has changed but the epoch: newcomers have the key of the new one only.
            durable.write(self.group_directory(group) / "all.package", self.publisher.package(group))
            for member in self.policies.members(group):
                epoch, envelope = self.publisher.envelope(group, member)
                path = self.group_directory(group) / f"{file_name(member)}.{epoch}.envelope"
                if not path.exists():
                    durable.write(path, envelope)
        return written

    def version(self, group: str) -> int:
        return self.publisher.version(group) if self.publisher.has_view(group) else 0

    def group_directory(self, group: str) -> Path:
        directory = self.directory / "out" / file_name(group)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def enrol(self, group: str, member: str, home: Path) -> None:
        """Make the directory of a member, with its key: a file to be handed over on a way that is safe."""
        self.policies.check(group, member)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        fields = {
            "member": member,
            "document": self.publisher.name,
            "group": group,
            "key": self.publisher.keys.member(member).hex(),
            "public_key": self.publisher.public_key.hex(),
        }
        durable.write(home / "member.json", json.dumps(fields, indent=2).encode(), mode=PRIVATE)
        epoch, envelope = self.publisher.envelope(group, member)
        MemberHome(home).admit(epoch, envelope)


class MemberHome:
    """The directory of a member."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for name in ("envelopes", "packages"):
            (directory / name).mkdir(exist_ok=True)
        try:
            fields = json.loads((directory / "member.json").read_text("utf-8"))
            key, public_key = bytes.fromhex(fields["key"]), bytes.fromhex(fields["public_key"])
            self.subscriber = Subscriber(fields["member"], key, fields["document"], fields["group"], public_key)
        except (KeyError, ValueError, TypeError):
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
