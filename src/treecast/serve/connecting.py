"""How frames come to a socket: connections that one side makes, and those that the other side has accepted."""

from __future__ import annotations

import asyncio
import socket
import ssl

from treecast.serve.tls_transport import start_tls


async def connect(protocol: asyncio.BufferedProtocol, host: str, port: int, tls: ssl.SSLContext | None) -> None:
    """Connect; with TLS, to a peer whose certificate is for this host. Raises OSError, which errors of TLS are too."""
    loop = asyncio.get_running_loop()
    if tls is None:
        await loop.create_connection(lambda: protocol, host, port)
        return
    connected = await _connected_socket(host, port)
    try:
        await start_tls(connected, protocol, tls, server_hostname=host)
    except BaseException:  # also when it is given up meanwhile
        connected.close()
        raise


async def _connected_socket(host: str, port: int) -> socket.socket:
    """To the first address of a host that answers."""
    loop = asyncio.get_running_loop()
    failure = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connected = socket.socket(family, kind, protocol)
        try:
            connected.setblocking(False)
            await loop.sock_connect(connected, address)
        except OSError as error:
            connected.close()
            failure = error
        except BaseException:
            connected.close()
            raise
        else:
            return connected
    raise failure
