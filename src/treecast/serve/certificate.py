"""The certificate of a service, which may be renewed while it runs: new connections get the new one.

Files are looked at now and then, and on SIGHUP. A pair that does not fit, as while one of two files is replaced,
changes nothing: it is tried again when a file changes again.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

from treecast.serve.tls import TlsFiles, https_context, server_context
from treecast.serve.transport_error import TransportError


class Certificate:
    """Contexts for HTTP, and for peers if there is a CA for them. Raises TransportError TC409."""

    def __init__(self, files: TlsFiles, log: structlog.typing.FilteringBoundLogger) -> None:
        self._files = files
        self._log = log
        self._signature = self._look_at_files()
        self.context = https_context(files)
        self.peers: ssl.SSLContext | None = server_context(files) if files.ca else None

    def _look_at_files(self) -> list[tuple[int, int, int]]:
        names = [name for name in (self._files.certificate, self._files.key) if name]
        found = [Path(name).stat() for name in names if Path(name).exists()]
        return [(one.st_mtime_ns, one.st_size, one.st_ino) for one in found]

    def look(self) -> None:
        """Load the files again if they have changed."""
        try:
            signature = self._look_at_files()
            if signature == self._signature:
                return
            self._signature = signature
            self.context = https_context(self._files)
            if self.peers is not None:
                self.peers.load_cert_chain(self._files.certificate, self._files.key or None)
        except (TransportError, OSError) as error:
            self._log.error("the certificate is as before", error=str(error))
        else:
            self._log.info("the certificate was loaded again")
