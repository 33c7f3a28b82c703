"""A firewall for SOAP: valid orders reach a server, everything else is refused, and a dead server is routed around.

It starts two small servers and `treecast up --firewall`, and sends what clients of a shop might send:

    python examples/firewall/soap.py
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import aiohttp
from aiohttp import web

HERE = Path(__file__).parent
ENVELOPE = (
    '<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>{}</soap:Body></soap:Envelope>'
)
HEADERS = {"Content-Type": "text/xml; charset=utf-8", "SOAPAction": '"order"'}


async def start_server(name: str) -> tuple[web.AppRunner, int]:
    """A server that answers every order with its own name."""

    async def order(request: web.Request) -> web.Response:
        assert request.headers["SOAPAction"] == HEADERS["SOAPAction"]
        return web.Response(text=ENVELOPE.format(f"<done>{name}</done>"), content_type="text/xml")

    async def health(request: web.Request) -> web.Response:
        return web.Response(text="well")

    application = web.Application()
    application.add_routes([web.post("/orders", order), web.get("/health", health)])
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, runner.addresses[0][1]


async def send(session: aiohttp.ClientSession, url: str, body: str) -> str:
    """What a client sees, in short."""
    async with session.post(f"{url}/soap/orders", data=ENVELOPE.format(body), headers=HEADERS) as response:
        if response.content_type == "text/xml":
            return (await response.text()).partition("<done>")[2].partition("</done>")[0]
        answer = await response.json(content_type=None)
        return f"{response.status} {answer.get('detail') or answer['rules'][0]['rule']}"


async def show(url: str, first: web.AppRunner) -> None:
    async with aiohttp.ClientSession() as session:
        schema = {"schema": (HERE / "shop.dtd").read_text()}
        async with session.put(f"{url}/v1/sources/shop", json=schema) as response:
            assert response.status == 201
        order = '<order><item count="2">tea</item></order>'
        print("an order:", sorted({await send(session, url, order) for _ in range(4)}))
        print("an invalid one:", await send(session, url, '<order><item count="a lot">tea</item></order>'))
        print("what nobody wants:", await send(session, url, "<question>why?</question>"))
        print("what all want:", await send(session, url, "<cancel>7</cancel>"))
        await first.cleanup()
        print("one server is dead:", sorted({await send(session, url, order) for _ in range(8)}))


async def main() -> None:
    (first, first_port), (second, second_port) = await start_server("server 1"), await start_server("server 2")
    with tempfile.TemporaryDirectory() as directory:
        rules = (
            (HERE / "rules.toml").read_text().replace("{first}", str(first_port)).replace("{second}", str(second_port))
        )
        Path(directory, "rules.toml").write_text(rules)
        command = [sys.executable, "-m", "treecast", "up", "--data", f"{directory}/data", "--listen", "127.0.0.1:0"]
        command += ["--firewall", f"{directory}/rules.toml", "--log-level", "error"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
            assert service.stdout is not None
            try:
                line = await asyncio.to_thread(service.stdout.readline)
                await show(line.removeprefix("listening on ").strip(), first)
            finally:
                service.terminate()
    await second.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
