"""Headers that no request keeps, and header edits of routes and targets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from lbgen.engines.api import Objection, refused
from lbgen.engines.haproxy.maps import Maps, PerRoute
from lbgen.engines.haproxy.quote import Sample, log_format
from lbgen.engines.haproxy.statements import Statement, acl, set_var, statement
from lbgen.engines.haproxy.values import edit_statements
from lbgen.engines.haproxy.view import Contributor, Forwarded, HttpListener
from lbgen.engines.text import Atom, Literal
from lbgen.plan.forwarding import client_fields
from lbgen.plan.model import Forward, HeaderEdits, Listener, Plan, Respond
from lbgen.plan.values import Template, Value

LONGEST_TEXT = 8_000  # bytes of a header value; headers that are added to a head have 8 KiB of room
_HOP_BY_HOP = ("keep-alive", "proxy-connection", "te", "trailer", "http2-settings")
_CLAIMS = "x-(?:forwarded-(?:for|host|port|proto)|request-id)"  # which only trusted proxies may make
_NO_PLAIN = re.compile(r"[^\w-]")  # of the characters of a name


def _claims(listener: Listener) -> list[str]:
    """Regexes of what only trusted proxies may say."""
    return [_CLAIMS, *(_NO_PLAIN.sub(r"\\\g<0>", each) for each in sorted(client_fields(listener)))]


def dropped_names(listener: Listener, identities: Iterable[str] = ()) -> str:
    """A regex of the names that a request loses whoever sent it: those of one connection, what a client says about
    itself, `identities` that auth makes, and with an underscore what some servers take for the name with a hyphen."""
    names = [
        *_HOP_BY_HOP,
        *([] if listener.trusted_proxies else _claims(listener)),
        *(_NO_PLAIN.sub(r"\\\g<0>", each) for each in identities),
    ]
    return f"{'' if listener.underscores else '_|'}^(?:{'|'.join(names)})$"


def forwarded(listener: Listener, maps: Maps, client: str, *, makes_id: bool) -> Forwarded:
    """Headers about the client; `client` is a sample of its address, `makes_id`: a request has no id yet."""
    drops = None
    if listener.trusted_proxies:
        stranger = ~maps.is_within("src", listener.trusted_proxies, "trusted", listener.field)
        first, *others = _claims(listener)
        claims = f"^(?:{'|'.join((first, *others))})$" if others else f"^{first}$"
        drops = statement("http-request del-header", Literal(claims), "-m reg", when=[stranger])
    return Forwarded(
        drops=drops,
        sets=listener.forwarded_headers,
        request_id=makes_id,
        scheme=Atom(listener.scheme),
        port=listener.client_port,
        stated=Atom(client) if listener.client_header is not None else None,
        statements=tuple(_client_headers(listener, client)),
    )


def _client_headers(listener: Listener, client: str) -> Iterator[Statement]:
    """X-Real-IP, and Forwarded (RFC 7239), which quotes what has a colon."""
    if listener.client_header is not None and not listener.forwarded_headers:
        yield statement("http-request del-header X-Forwarded-For")
    if listener.real_ip:
        yield statement(f"http-request set-header X-Real-IP %[{client}]")
    if listener.forwarded:
        verb, node = ("add", "src") if listener.extends_forwarded else ("set", client)
        for variable, sample in (("txn.node", node), ("txn.authority", "req.fhdr(host)")):
            yield set_var(variable, sample)
            quoted = Literal(
                log_format('"[' if sample == node else '"', Sample(sample), ']"' if sample == node else '"')
            )
            yield statement(f"http-request set-var-fmt({variable})", quoted, when=[acl(f"{sample} -m sub :")])
        parts = ("for=", Sample("var(txn.node)"), ";host=", Sample("var(txn.authority)"), f";proto={listener.scheme}")
        yield statement(f"http-request {verb}-header Forwarded", Literal(log_format(*parts)))


def header_statements(
    on: HttpListener, rules: str, edits: Iterable[tuple[str, HeaderEdits]], per_route: PerRoute, purpose: str
) -> list[Statement]:
    """Statements of the rule set `rules` (`http-request`, `http-after-response`) for (key, edits): all removals, then
    all sets, then all additions. A header takes one statement or one lookup, however many routes edit it."""
    removed: dict[str, list[str]] = {}
    replaced: dict[str, dict[str, Value]] = {}
    added: dict[tuple[str, int], dict[str, Value]] = {}
    for key, edit in edits:
        for name in edit.remove:
            removed.setdefault(name, []).append(key)
        for name, value in edit.set:
            replaced.setdefault(name, {})[key] = value
        nth: dict[str, int] = {}
        for name, value in edit.add:
            nth[name] = nth.get(name, 0) + 1
            added.setdefault((name, nth[name]), {})[key] = value
    numbers = {name: n for n, name in enumerate(dict.fromkeys((*removed, *replaced, *(n for n, _ in added))), 1)}

    def action(verb: str, name: str) -> Statement:
        return statement(f"{rules} {verb}-header", Literal(name))

    def write(verb: str, name: str, values: Mapping[str, Value], purpose: str) -> Iterator[Statement]:
        texts = {key: value for key, value in values.items() if isinstance(value, str)}
        yield from per_route.with_values(action(verb, name), texts, purpose)
        for key, value in values.items():
            if isinstance(value, Template):
                made = edit_statements(on, rules, action(verb, name), name, key.partition("@")[0], value)
                yield from (per_route.restrict(each, [key], f"{purpose}.{key}") for each in made)

    statements = [
        per_route.restrict(action("del", name), keys, f"{purpose}.{numbers[name]}.remove")
        for name, keys in removed.items()
    ]
    for name, values in replaced.items():
        statements += write("set", name, values, f"{purpose}.{numbers[name]}.set")
    for (name, n), values in added.items():
        statements += write("add", name, values, f"{purpose}.{numbers[name]}.add.{n}")
    return statements


def _request_edits(on: HttpListener) -> list[Statement]:
    edits = [(name, on.plan.route(on.keys[name].route).request_headers) for name in on.forwards]
    return header_statements(on, "http-request", edits, on.per_route, "request")


def _response_edits(on: HttpListener) -> list[Statement]:
    edits = [(name, route.response_headers) for name, route in on.routes if route.response_headers]
    return header_statements(on, "http-after-response", edits, on.per_response, "response")


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route in plan.routes:
        edits = [(route.request_headers, "request_headers"), (route.response_headers, "response_headers")]
        if isinstance(route.action, Forward):
            edits += [(target.request_headers, "forward") for target in route.action.targets]
        texts = [(value, where) for edit, where in edits if edit for _, value in (*edit.set, *edit.add)]
        if isinstance(route.action, Respond):
            texts += [(value, "respond") for _, value in route.action.headers]
        if long := [where for value, where in texts if isinstance(value, str) and len(value.encode()) > LONGEST_TEXT]:
            why = f"a header value holds at most {LONGEST_TEXT} bytes"
            yield Objection(refused(why), f"{route.field}.{long[0]}")


HEADERS = Contributor(edits=_request_edits, objections=_objections)
RESPONSE_HEADERS = Contributor(edits=_response_edits)
