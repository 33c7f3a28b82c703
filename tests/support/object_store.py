"""An S3 server on loopback over a directory: s3proxy, a program in Java, from build/maven.

`tools/setup.sh maybe-maven` puts it there.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from treecast.inputs.locations import Storage

JARS = Path(__file__).parent.parent.parent / "build" / "maven"
KEY, SECRET = "who-reads", "key-of-the-tests"
START_SECONDS_MAX = 60


@dataclass(frozen=True)
class ObjectStore:
    """A running server, and the directory that holds its buckets."""

    endpoint: str
    directory: Path

    @property
    def settings(self) -> dict[str, str]:
        """As Hadoop has them."""
        return {"fs.s3a.endpoint": self.endpoint, "fs.s3a.access.key": KEY, "fs.s3a.secret.key": SECRET}

    @property
    def storage(self) -> Storage:
        return Storage.of(self.settings)

    def put(self, name: str, data: bytes) -> str:
        """An object, in the bucket `bucket`; the answer is its path."""
        path = self.directory / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return f"s3a://bucket/{name}"


@contextmanager
def served(directory: Path) -> Iterator[ObjectStore]:
    """A server that ends with the block."""
    data = directory / "data"
    (data / "bucket").mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    properties = directory / "s3proxy.conf"
    properties.write_text(
        f"s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={KEY}\ns3proxy.credential={SECRET}\n"
        f"jclouds.provider=filesystem-nio2\njclouds.identity=x\njclouds.credential=x\njclouds.filesystem.basedir={data}\n"
    )
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]
    command += ["org.gaul.s3proxy.Main", "--properties", str(properties)]
    log = directory / "s3proxy.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            until = time.monotonic() + START_SECONDS_MAX
            while not _answers(port):
                assert process.poll() is None and time.monotonic() < until, log.read_text()[-2000:]
                time.sleep(0.1)
            yield ObjectStore(f"http://127.0.0.1:{port}", data)
        finally:
            process.kill()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
