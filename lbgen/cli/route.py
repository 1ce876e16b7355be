"""`lbgen route`: which rule serves a request, and why the others do not; no proxy needed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lbgen.cli import options
from lbgen.cli.output import as_json as print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.plan.model import Listener
    from lbgen.plan.request import Request
    from lbgen.plan.simulate import Outcome

_URL = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*))?(?P<target>.*)", re.DOTALL)
_PORTS = {"http": 80, "https": 443}
_PORT = re.compile(r":(\d+)$")
SHOWN = 20  # losing rules printed


class IpAddress(click.ParamType[str]):
    """An IPv4 or IPv6 address."""

    name = "ip"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """`value` when it is one; a usage error otherwise."""
        from ipaddress import ip_address

        try:
            return str(ip_address(value))
        except ValueError:
            self.fail(f"{value!r} is not an IP address; write one such as 10.0.0.7 or 2001:db8::7", param, ctx)


@click.command(
    epilog="\b\nExamples:\n  lbgen route shop.yaml GET http://shop.example:8080/api/cart\n"
    "  lbgen route shop.yaml GET http://shop.example:8080/api/cart -H 'x-canary: true' --client 10.0.0.7\n"
    "  lbgen route shop.yaml GET '/api//cart' -H 'Host: shop.example' --json"
)
@options.topology
@click.argument("method")
@click.argument("url")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A request header (repeatable)."
)
@click.option(
    "--client", type=IpAddress(), default="127.0.0.1", show_default=True, help="Where the request comes from."
)
@click.option("--listener", default="", metavar="NAME", help="The listener, instead of the one on the URL's port.")
@options.json_flag
def command(
    topology: str, method: str, url: str, headers: tuple[str, ...], client: str, listener: str, as_json: bool
) -> None:
    """Say which rule serves METHOD URL, what reaches the endpoint, and why the other rules do not serve it.

    The URL's scheme and port pick the listener (http is 80, https 443; a path alone: the first one); its path is taken
    as it stands. `-H "x:"` sends an empty value. With tiers each that the request passes is asked.
    """
    import lbgen

    loaded = lbgen.load(topology)
    if loaded.model.tiers is not None:
        from lbgen.cli.hops import print_hops

        print_hops(lbgen.tiers(loaded), method, url, headers, client, listener, as_json=as_json)
        return
    plan = lbgen.plan(loaded)
    scheme, authority, _ = parsed(url)
    name = chosen([each for each in plan.listeners if each.mode == "l7"], scheme, authority, listener)
    request = replace(build(method, url, headers, client), listener=name)
    outcome = lbgen.simulate(plan, request)
    if as_json:
        print_json({"listener": request.listener, **record(outcome)})
    else:
        show(outcome, described(plan.listener(request.listener)))


def build(method: str, url: str, headers: tuple[str, ...], client: str) -> Request:
    """The request that the command line describes, without its listener; click.UsageError when it describes none."""
    from lbgen.plan.request import Request

    _, authority, target = parsed(url)
    lines = [_header(text) for text in headers]
    if authority and not any(name.lower() == "host" for name, _ in lines):
        lines.insert(0, ("Host", _raw(authority)))
    if target.startswith("?"):
        target = "/" + target
    return Request(method=method, target=_raw(target), headers=tuple(lines), client=client)


def parsed(url: str) -> tuple[str | None, str | None, str]:
    """Scheme, authority and target of a URL, of which there may be the target alone."""
    found = _URL.fullmatch(url)
    if found is None:
        return None, None, url or "/"
    return found["scheme"], found["authority"], found["target"] or "/"


def _raw(text: str) -> str:
    """The bytes of an argument as latin-1, also where they are no UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise click.UsageError(f"-H needs 'NAME: VALUE', not {text!r}")
    return name.strip(), _raw(value.strip())


def chosen(listeners: Sequence[Listener], scheme: str | None, authority: str | None, asked: str = "") -> str:
    """The name of the listener that a URL means by its scheme and port, or of the one that is asked for.

    A target without scheme means the first listener. Raises click.UsageError with the listeners that there are.
    """
    if not listeners:
        raise click.UsageError("the topology has no L7 listener; route is about requests")
    known = "; ".join(map(described, listeners))
    if asked:
        if asked not in {each.name for each in listeners}:
            raise click.UsageError(f"no listener {asked!r} for requests; there are: {known}")
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
            f"no listener on port {port}; there are: {known}; write its port, or add --listener NAME"
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


def described(listener: Listener) -> str:
    """Name, scheme and port of a listener."""
    return f"{listener.name} ({_scheme(listener) if listener.mode == 'l7' else 'bytes'}, port {listener.port})"


def record(outcome: Outcome) -> dict[str, object]:
    """The JSON record: route, pool, pools, status, location, upstream {target, host, headers}, losers and more."""
    ups = outcome.upstreams
    serving = [u for u in ups if u.weight > 0]
    first = serving[0] if serving else None
    return {
        "route": outcome.route,
        "rule": outcome.rule,
        "reason": outcome.reason,
        "pool": first.pool if first and len(serving) == 1 else None,
        "pools": [{"pool": u.pool, "weight": u.weight} for u in ups],
        "status": outcome.status,
        "others": list(outcome.others),
        "location": outcome.location,
        "body": outcome.body,
        "upstream": (
            {
                "method": first.method,
                "target": first.target,
                "host": first.host,
                "endpoint": first.endpoint,
                "set_cookies": list(first.set_cookies),
                "headers": dict(first.headers),
            }
            if first
            else None
        ),
        "losers": [{"rule": x.rule, "route": x.route, "reason": x.reason} for x in outcome.losers],
    }


def show(outcome: Outcome, listener: str = "") -> None:
    """For people."""
    if listener:
        click.echo(f"  listener  {listener}")
    if outcome.status is not None:
        click.echo(f"{click.style(str(outcome.status), bold=True)}  {outcome.reason}")
    if outcome.others:
        click.echo(f"  or        {', '.join(map(str, outcome.others))}")
    if outcome.location is not None:
        click.echo(f"  location  {outcome.location}")
    if outcome.route is not None:
        click.echo(f"  route     {outcome.route} (rule {outcome.rule})")
    total = sum(u.weight for u in outcome.upstreams) or 1
    for up in outcome.upstreams:
        share = f" {100 * up.weight / total:.4g} %" if len(outcome.upstreams) > 1 else ""
        stuck = "" if up.endpoint is None else f" at {up.endpoint}, as its cookie says"
        click.echo(f"  pool      {up.pool}{share}{stuck}: {up.method} {up.target} (Host: {up.host})")
        for name, value in up.headers:
            click.echo(f"              {name}: {value if value is not None else '(made by the proxy)'}")
        if up.set_cookies:
            click.echo(f"              the answer sets the cookie {up.set_cookies[0].partition('=')[0]}")
    if outcome.losers:
        click.echo("not served by:")
    for loser in outcome.losers[:SHOWN]:
        click.echo(f"  {loser.rule}: {loser.reason}")
    if len(outcome.losers) > SHOWN:
        click.echo(f"  ... and {len(outcome.losers) - SHOWN} more (--json shows all)")
