"""`lbgen route`: which rule serves a request, and why the others do not; no proxy needed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from lbgen.cli import options
from lbgen.cli.output import as_json as print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.plan.model import Listener, Plan
    from lbgen.plan.simulate import Outcome, Request

_URL = re.compile(r"(?:(?P<scheme>https?)://(?P<authority>[^/?#]*))?(?P<target>.*)", re.DOTALL)
_PORT = re.compile(r":(\d+)$")
SHOWN = 20  # losing rules printed


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
@click.option("--client", default="127.0.0.1", show_default=True, metavar="IP", help="Where the request comes from.")
@click.option("--listener", default="", metavar="NAME", help="The listener, when the URL's port does not tell.")
@options.json_flag
def command(
    topology: str, method: str, url: str, headers: tuple[str, ...], client: str, listener: str, as_json: bool
) -> None:
    """Say which rule serves METHOD URL, what reaches the endpoint, and why the other rules do not serve it.

    The URL's port picks the listener; its path is taken as it stands. `-H "x:"` sends an empty value. With tiers each
    that the request passes is asked.
    """
    import lbgen

    loaded = lbgen.load(topology)
    if loaded.model.tiers is not None:
        from lbgen.cli.hops import print_hops

        print_hops(lbgen.tiers(loaded), method, url, headers, client, listener, as_json=as_json)
        return
    plan = lbgen.plan(loaded)
    request = build(plan, method, url, headers, client, listener)
    outcome = lbgen.simulate(plan, request)
    if as_json:
        print_json(record(outcome))
    else:
        show(outcome)


def build(plan: Plan, method: str, url: str, headers: tuple[str, ...], client: str, listener: str) -> Request:
    """The request that the command line describes; click.UsageError when it describes none."""
    from lbgen.plan.simulate import Request

    scheme, authority, target = parsed(url)
    lines = [_header(text) for text in headers]
    if authority and not any(name.lower() == "host" for name, _ in lines):
        lines.insert(0, ("Host", authority))
    if target.startswith("?"):
        target = "/" + target
    return Request(
        method=method,
        target=target.encode().decode("latin-1"),
        headers=tuple(lines),
        listener=listener or chosen([x for x in plan.listeners if x.mode == "l7"], scheme, authority),
        client=client,
    )


def parsed(url: str) -> tuple[str | None, str | None, str]:
    """Scheme, authority and target of a URL, of which there may be the target alone."""
    found = _URL.fullmatch(url)
    if found is None:
        return None, None, url or "/"
    return found["scheme"], found["authority"], found["target"] or "/"


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise click.UsageError(f"-H wants 'NAME: VALUE', not {text!r}")
    return name.strip(), value.strip().encode().decode("latin-1")


def chosen(listeners: Sequence[Listener], scheme: str | None, authority: str | None) -> str:
    """The name of the listener that a URL means, by its port; the first one when it names no port."""
    if not listeners:
        raise click.UsageError("the topology has no L7 listener")
    if not scheme:
        return listeners[0].name
    written = _PORT.search(authority or "")
    port = int(written[1]) if written else {"http": 80, "https": 443}[scheme]
    for each in listeners:
        if each.port == port:
            return each.name
    if written:
        known = ", ".join(f"{x.name} {x.port}" for x in listeners)
        raise click.UsageError(f"no listener on port {port}; there are: {known}")
    return listeners[0].name


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


def show(outcome: Outcome) -> None:
    """For people."""
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
