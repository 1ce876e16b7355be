"""The request that a command line describes, and the listener that its URL addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lbgen.plan.model import Listener
    from lbgen.plan.request import Request

_URL = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*))?(?P<target>.*)", re.DOTALL)
_PORTS = {"http": 80, "https": 443}
_PORT = re.compile(r":(\d+)$")


def build_request(method: str, url: str, headers: tuple[str, ...], client: str) -> Request:
    """Build the request, without its listener. Raises click.UsageError for a malformed header."""
    from lbgen.plan.request import Request

    _, authority, target = parse_url(url)
    lines = [_header(text) for text in headers]
    if authority and not any(name.lower() == "host" for name, _ in lines):
        lines.insert(0, ("Host", _raw(authority)))
    if target.startswith("?"):
        target = "/" + target
    return Request(method=method, target=_raw(target), headers=tuple(lines), client=client)


def parse_url(url: str) -> tuple[str | None, str | None, str]:
    """Split a URL into scheme, authority and target; the first two are None when only a target is given."""
    found = _URL.fullmatch(url)
    if found is None:
        return None, None, url or "/"
    return found["scheme"], found["authority"], found["target"] or "/"


def _raw(text: str) -> str:
    """Decode the bytes of an argument as latin-1, also where they are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise click.UsageError(f"-H needs 'NAME: VALUE', not {text!r}")
    return name.strip(), _raw(value.strip())


def choose_listener(listeners: Sequence[Listener], scheme: str | None, authority: str | None, asked: str = "") -> str:
    """Return the name of the listener that a URL's scheme and port select, or `asked` if it is given.

    A target without a scheme selects the first listener. Raises click.UsageError, which lists the listeners.
    """
    if not listeners:
        raise click.UsageError("the topology has no L7 listener, and only L7 listeners serve requests")
    known = "; ".join(map(describe_listener, listeners))
    if asked:
        if asked not in {each.name for each in listeners}:
            raise click.UsageError(f"no listener {asked!r} serves requests; listeners: {known}")
        return asked
    if not scheme:
        return listeners[0].name
    if scheme.lower() not in _PORTS:
        raise click.UsageError(f"the scheme {scheme} is not served; write http:// or https://, or the path alone")
    written = _PORT.search(authority or "")
    port = int(written[1]) if written else _PORTS[scheme.lower()]
    there = [each for each in listeners if each.port == port]
    if not there:
        raise click.UsageError(
            f"no listener on port {port}; listeners: {known}; use the port of one of them, or add --listener NAME"
        )
    host = (authority or "").rpartition("@")[2].removesuffix(written[0] if written else "").strip("[]")
    here = [each for each in there if each.address == host] or there
    if len(here) > 1:
        names = ", ".join(each.name for each in here)
        raise click.UsageError(f"several listeners on port {port}: {names}; add --listener NAME")
    if here[0].mode == "l7" and scheme.lower() != _scheme(here[0]):
        speaks = "TLS" if _scheme(here[0]) == "https" else "plain HTTP"
        raise click.UsageError(f"listener {here[0].name} on port {port} speaks {speaks}: write {_scheme(here[0])}://")
    return here[0].name


def _scheme(listener: Listener) -> str:
    return "https" if listener.tls is not None else "http"


def describe_listener(listener: Listener) -> str:
    """Describe a listener by name, scheme and port."""
    return f"{listener.name} ({_scheme(listener) if listener.mode == 'l7' else 'bytes'}, port {listener.port})"
