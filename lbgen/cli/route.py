"""`lbgen route`: which rule serves a request, and why the others do not; no proxy needed."""

from __future__ import annotations

import click

from lbgen.cli import options
from lbgen.cli.output import print_json
from lbgen.cli.request import build_request, choose_listener, describe_listener, parse_url
from lbgen.records import replace


class IpAddress(click.ParamType[str]):
    """An IPv4 or IPv6 address."""

    name = "ip"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address in its canonical form, or fail with a usage error."""
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
@click.option("--client", type=IpAddress(), default="127.0.0.1", show_default=True, help="The client's address.")
@click.option("--listener", default="", metavar="NAME", help="The listener, instead of the one on the URL's port.")
@options.json_flag
def command(
    topology: options.TopologyFiles,
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
    import lbgen
    from lbgen.cli.outcome import hops_record, outcome_record, print_hops, print_outcome
    from lbgen.plan.model import Protocol
    from lbgen.plan.tier_simulation import follow_tiers

    loaded = topology.load()
    scheme, authority, _ = parse_url(url)
    if loaded.model.tiers is None:
        plan = lbgen.plan(loaded)
        name = choose_listener([each for each in plan.listeners if each.mode == "l7"], scheme, authority, listener)
        outcome = lbgen.simulate(plan, replace(build_request(method, url, headers, client), listener=name))
        if as_json:
            print_json({"listener": name, **outcome_record(outcome)})
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
        print_json(hops_record(hops))
    else:
        print_hops(hops)
