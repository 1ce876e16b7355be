"""`lbgen route`: which rule serves a request, and why the others do not; no proxy needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import click
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

import lbgen
from lbgen.cli import options, values
from lbgen.cli.output import print_json
from lbgen.cli.topology_files import TopologyFiles, topology_option
from lbgen.json_types import Printed
from lbgen.plan.model import Listener, Protocol
from lbgen.plan.request import Request
from lbgen.plan.simulate import L4Outcome, Outcome
from lbgen.plan.tier_simulation import Hop, follow_tiers

SHOWN = 20  # losing rules printed
_URL = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*))?(?P<target>.*)", re.DOTALL)
_PORTS = {"http": 80, "https": 443}
_PORT = re.compile(r":(\d+)$")


class LosingRule(Printed, frozen=True):
    """A rule that does not serve the request."""

    rule: str
    route: str
    reason: str


class Share(Printed, frozen=True):
    """A pool that may serve the request."""

    pool: str
    weight: int


class Forwarded(Printed, frozen=True):
    """What reaches the endpoint."""

    method: str
    target: str
    host: Annotated[
        str | None, Meta(description="null: the request had none, and what the engine sends is not promised.")
    ]
    endpoint: Annotated[str | None, Meta(description="The only endpoint that it may be, by a sticky cookie.")]
    set_cookies: Annotated[tuple[str, ...], Meta(description="The cookie that the client gets, for each endpoint.")]
    headers: Annotated[dict[str, str | None], Meta(description="null: the value is made by the proxy.")]


class Answer(Printed, frozen=True, kw_only=True):
    """What happens to a request on a listener, or, on one of L4, to a connection. With tiers: in the last of them."""

    tier: Annotated[str | UnsetType, Meta(description="With tiers.")] = UNSET
    listener: str
    client_known: Annotated[
        bool | UnsetType, Meta(description="With tiers: the client's address reaches the tier.")
    ] = UNSET
    route: str | None
    rule: str | None
    reason: str
    auth: Annotated[
        str | UnsetType | None, Meta(description="L7. What the route asks of the request first; null: nothing.")
    ] = UNSET
    well_formed: Annotated[
        bool | UnsetType,
        Meta(description="L7. false: refused in the engine's own way, or served in a form on which the rules hold."),
    ] = UNSET
    pool: Annotated[str | None, Meta(description="null: none, or several by weight.")]
    pools: tuple[Share, ...]
    status: Annotated[int | UnsetType | None, Meta(description="L7. null: the endpoint answers.")] = UNSET
    others: Annotated[tuple[int, ...] | UnsetType, Meta(description="L7. Statuses of which each may come instead.")] = (
        UNSET
    )
    location: Annotated[str | UnsetType | None, Meta(description="L7.")] = UNSET
    body: Annotated[str | UnsetType | None, Meta(description="L7. null: not promised.")] = UNSET
    upstream: Annotated[Forwarded | UnsetType | None, Meta(description="L7.")] = UNSET
    losers: tuple[LosingRule, ...]
    tiers: Annotated[tuple[Answer, ...] | UnsetType, Meta(description="With tiers: every one, in order.")] = UNSET


@click.command(
    epilog="\b\nExamples:\n  lbgen route shop.yaml GET http://shop.example:8080/api/cart\n"
    "  lbgen route shop.yaml GET http://shop.example:8080/api/cart -H 'x-canary: true' --client 10.0.0.7\n"
    "  lbgen route shop.yaml GET '/api//cart' -H 'Host: shop.example' --json"
)
@topology_option
@click.argument("method")
@click.argument("url")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A request header (repeatable)."
)
@click.option("--client", type=values.ip, default="127.0.0.1", show_default=True, help="The client's address.")
@click.option("--listener", default="", metavar="NAME", help="The listener, instead of the one on the URL's port.")
@options.json_flag
def route_command(
    topology: TopologyFiles,
    method: str,
    url: str,
    headers: tuple[str, ...],
    client: str,
    listener: str,
    as_json: bool,
) -> None:
    """Say which rule serves METHOD URL, what reaches the endpoint, and why the other rules do not serve it.

    The scheme and port of the URL select the listener (http is 80, https 443; a path alone selects the first one). The
    path is used as written. `-H "x:"` sends an empty value. With tiers the request is followed through each of them.
    """
    loaded = topology.load()
    scheme, authority, _ = parse_url(url)
    if loaded.model.tiers is None:
        plan = lbgen.plan(loaded)
        name = choose_listener([each for each in plan.listeners if each.mode == "l7"], scheme, authority, listener)
        outcome = lbgen.simulate(plan, replace(build_request(method, url, headers, client), listener=name))
        if as_json:
            print_json(answer(outcome, listener=name))
        else:
            print_outcome(outcome, describe_listener(plan.listener(name)))
        return
    tiers = lbgen.tiers(loaded)
    reachable = [tier for tier in tiers if tier.entry or listener]
    listeners = [each for tier in reachable for each in tier.plan.listeners if each.protocol is Protocol.TCP]
    name = choose_listener(listeners, scheme, authority, listener)
    host = (authority or "").rpartition("@")[2]
    sni = host.rpartition(":")[0] or host if scheme == "https" else None
    hops = follow_tiers(tiers, name, replace(build_request(method, url, headers, client), listener=""), sni)
    if as_json:
        every = tuple(answer(x.outcome, tier=x.tier, listener=x.listener, client_known=x.client_known) for x in hops)
        print_json(replace(every[-1], tiers=every))
    else:
        print_hops(hops)


def build_request(method: str, url: str, headers: tuple[str, ...], client: str) -> Request:
    """Build the request, without its listener. Raises click.UsageError for a malformed header."""
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


def answer(outcome: Outcome | L4Outcome, **place: Any) -> Answer:  # noqa: ANN401  # listener, tier, client_known
    """The JSON of what happens at a place."""
    losers = tuple(LosingRule(x.rule, x.route, x.reason) for x in outcome.losers)
    what: dict[str, Any] = {"route": outcome.route, "rule": outcome.rule, "reason": outcome.reason, "losers": losers}
    if isinstance(outcome, L4Outcome):
        pools = tuple(Share(*each) for each in outcome.pools)
        return Answer(**place, **what, pool=pools[0].pool if len(pools) == 1 else None, pools=pools)
    serving = [u for u in outcome.upstreams if u.weight > 0]
    first = serving[0] if serving else None
    upstream = None
    if first is not None:
        sent = (first.method, first.target, first.host, first.endpoint, first.set_cookies)
        upstream = Forwarded(*sent, dict(first.headers))
    return Answer(
        **place,
        **what,
        auth=None if outcome.auth is None else outcome.auth.describe(),
        well_formed=outcome.well_formed,
        pool=first.pool if first and len(serving) == 1 else None,
        pools=tuple(Share(u.pool, u.weight) for u in outcome.upstreams),
        status=outcome.status,
        others=outcome.others,
        location=outcome.location,
        body=outcome.body,
        upstream=upstream,
    )


def print_outcome(outcome: Outcome, listener: str = "") -> None:
    """Print an outcome for people."""
    if listener:
        click.echo(f"  listener  {listener}")
    if outcome.status is not None:
        click.echo(f"{click.style(str(outcome.status), bold=True)}  {outcome.reason}")
    if not outcome.well_formed:
        click.echo("  or        another 4xx, or served in a form on which the rules hold: the engine's habit")
    if outcome.others:
        click.echo(f"  or        {', '.join(map(str, outcome.others))}")
    if outcome.location is not None:
        click.echo(f"  location  {outcome.location}")
    if outcome.route is not None:
        click.echo(f"  route     {outcome.route} (rule {outcome.rule})")
    if outcome.auth is not None:
        click.echo(f"  auth      {outcome.auth.describe()}")
    total = sum(u.weight for u in outcome.upstreams) or 1
    for up in outcome.upstreams:
        share = f" {100 * up.weight / total:.4g} %" if len(outcome.upstreams) > 1 else ""
        stuck = "" if up.endpoint is None else f" at {up.endpoint}, which its cookie names"
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


def print_hops(hops: tuple[Hop, ...]) -> None:
    """Print what each tier does with the request."""
    for hop in hops:
        click.echo(click.style(f"tier {hop.tier}, listener {hop.listener}", bold=True))
        if not hop.client_known:
            click.echo("  the client's own address is unknown here; the peer is the tier in front")
        if not isinstance(hop.outcome, L4Outcome):
            print_outcome(hop.outcome)
            continue
        if hop.outcome.route is None:
            click.echo(f"  {hop.outcome.reason}")
        else:
            click.echo(f"  route     {hop.outcome.route} (rule {hop.outcome.rule})")
        total = sum(weight for _, weight in hop.outcome.pools) or 1
        for name, weight in hop.outcome.pools:
            share = f" {100 * weight / total:.4g} %" if len(hop.outcome.pools) > 1 else ""
            click.echo(f"  pool      {name}{share}: the bytes, unchanged")
        for loser in hop.outcome.losers[:SHOWN]:
            click.echo(f"  not by {loser.rule}: {loser.reason}")
