"""What `treecast publish`, `subscribe` and `status` have in common: which service, with which token."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treecast.serve.http_client import HttpClient, HttpClientSettings, Note

URL = "http://127.0.0.1:8080"
URL_VARIABLE, TOKEN_VARIABLE, CA_VARIABLE = "TREECAST_URL", "TREECAST_TOKEN", "TREECAST_CA"


def add_client_options(
    parser: argparse.ArgumentParser, url: str = f"its address; default {URL_VARIABLE}, then {URL}"
) -> None:
    """The options of a client; `url` is the help of --url."""
    service = parser.add_argument_group("the service")
    option = service.add_argument
    option("--url", metavar="URL", help=url)
    option("--token", metavar="TOKEN", help=f"who you are; better in {TOKEN_VARIABLE}: others see options")
    option("--ca", metavar="FILE", help=f"certificate authority to trust (PEM); default {CA_VARIABLE}")


def client_maker(
    parser: argparse.ArgumentParser, options: argparse.Namespace, note: Note, settings: HttpClientSettings | None = None
) -> Callable[[], HttpClient]:
    """Makes clients of the service; exits with 2 where its address or the token cannot be one."""
    from treecast.serve.http_client import HttpClient, ServiceUrl

    url = options.url or os.environ.get(URL_VARIABLE) or URL
    token = options.token or os.environ.get(TOKEN_VARIABLE) or ""
    ca = options.ca or os.environ.get(CA_VARIABLE) or ""
    if not re.fullmatch(r"[\x21-\x7e]*", token):
        parser.error("the token holds a character that no token has")
    try:
        ServiceUrl.parse(url)
    except ValueError as error:
        parser.error(str(error))
    return lambda: HttpClient(url, token, ca, settings, note)
