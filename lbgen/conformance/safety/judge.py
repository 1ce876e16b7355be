"""Judges what arrived at an endpoint: the oracle reads it as the endpoint does, and must let it through to there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbgen.plan.auth import ForwardAuth
from lbgen.plan.forwarding import client_fields
from lbgen.plan.model import Forward, Listener, Plan, Rewrite, Route
from lbgen.plan.request import Headers, Request
from lbgen.plan.simulate import Outcome, simulate
from lbgen.plan.values import Fact, Template, placeholders_of

if TYPE_CHECKING:
    from lbgen.conformance.safety.corpus import Attack
    from lbgen.conformance.safety.endpoint import Arrival, Message

_NEVER_SERVED = ("TRACE", "CONNECT")
_HOP = frozenset(
    {"close", "keep-alive", "upgrade", "te", "trailers", "http2-settings"}
)  # what Connection may name towards endpoints
_SENT = frozenset({Fact.HEADER, Fact.COOKIE})  # what clients may say in values
_FORWARDED = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-request-id")
_HOST = re.compile(
    r"(?:[A-Za-z0-9._~!$&'()*+;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[^][:/,@ ]*)?"
)  # one host, or none; no rule names a port
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]")  # hosts that rules can name
_OTHER = "lbgen-other.invalid"  # a host, as a method that no rule names
_RAW = re.compile(r"[|\"<>{}^`]")  # browsers send some of them raw; an engine may escape them
_CONTROL = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")  # which RFC 9110 5.5 lets pass, and no rule contains
_QUOTED = re.compile(r'"[^"]*"')
_METHOD = re.compile(r"[A-Z][A-Z_-]*")
_FRAMING = frozenset({"connection", "content-length", "transfer-encoding", "keep-alive", "te", "upgrade", "expect"})


class Breach(Struct, frozen=True):
    """A promise that did not hold: `rule` is S1 to S4, `attack` what was sent, `detail` what came of it."""

    rule: str
    attack: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule} {self.attack!r}: {self.detail}"


def judge_arrival(plan: Plan, attack: Attack, arrival: Arrival, plain: Message) -> Iterator[Breach]:
    """What an arrival of `attack` breaks. `plain`: what arrives of a plain request on the same listener."""

    def breach(rule: str, detail: str) -> Breach:
        head = arrival.head[:400].decode("latin-1")
        return Breach(rule, attack.shown, f"{detail}; pool {arrival.pool} got {head!r}")

    if arrival.problem:
        yield breach("S1", f"bytes that can be read in two ways: {arrival.problem}")
    if len(arrival.marks) > 1:
        yield breach("S1", "bytes of several clients in one request")
    message = arrival.message
    if message is None:
        return
    if message.method in _NEVER_SERVED:  # methods are case-sensitive (RFC 9110 9.1)
        yield breach("S1", f"{message.method} reaches an endpoint")
    if "/hidden-" in message.target:
        yield breach("S1", "what was sent as part of another request arrives as one")
    if not attack.whole and arrival.complete:
        yield breach("S1", "what never came whole arrives as a whole request")
    listener = plan.listener(attack.target.listener)
    authority = next(iter(message.lines("host")), "")
    if not _HOST.fullmatch(authority):
        yield breach("S1", f"a Host that can be read in two ways: {authority!r}")
        return
    if (question := asked_about(plan, arrival.pool, message)) is not None:
        if not any(outcome.asked == arrival.pool for outcome in _readings(plan, attack, arrival.pool, question)):
            yield breach("S3", f"no rule asks for {question.method} {question.target}")
        return
    served = [*_ways(plan, attack, arrival.pool, message)]
    if not any(served):
        rule = "S1" if _is_plain(message.target) else "S3"
        yield breach(rule, f"no rule lets {message.method} {authority} {message.target} through to it")
        return
    route = next(each for each in served if each)
    for detail in _changed_fields(listener, attack, message, route, plain):
        yield breach("S2", detail)


def _is_plain(target: str) -> bool:
    return re.fullmatch(r"(/[A-Za-z0-9_-]+)+/?(\?.*)?", target) is not None


def _ways(plan: Plan, attack: Attack, pool: str, message: Message) -> Iterator[Route | None]:
    """How the oracle lets the request through to `pool`, for each way of reading it."""
    for outcome in _readings(plan, attack, pool, message):
        route = plan.route(outcome.route) if outcome.route and outcome.upstreams else None
        pools = {each.pool for each in outcome.upstreams}
        if route is not None and isinstance(route.action, Forward):
            pools |= _mirrors(route.action)
        yield route if pool in pools else None


def asked_about(plan: Plan, pool: str, message: Message) -> Message | None:
    """The request that a service is asked about, as it learns it; None for what is no question."""
    for auth in (route.auth for route in plan.routes):
        if not isinstance(auth, ForwardAuth) or (auth.pool, auth.target) != (pool, message.target):
            continue
        method, target, host = (message.lines(f"x-forwarded-{each}") for each in ("method", "uri", "host"))
        if message.lines("host") == [auth.host] and len(method) == len(target) == len(host) == 1:
            kept = tuple(line for line in message.headers if line[0] != "host")
            return replace(message, method=method[0], target=target[0], headers=(("host", host[0]), *kept))
    return None


def _readings(plan: Plan, attack: Attack, pool: str, message: Message) -> Iterator[Outcome]:
    """What the oracle does with the request that arrived at `pool`, for each way of reading it: of lines of one name a
    server may take the first, the last or all; a rewrite is undone."""
    for target, host in _before_rewrites(plan, pool, message, attack):
        for headers in _line_choices(message.headers, host):
            method = message.method if _METHOD.fullmatch(message.method) else "LBGEN-OTHER"
            readable = _RAW.sub(lambda found: f"%{ord(found[0]):02X}", target)
            if target == "*":
                readable = "/*"  # the server as a whole: no rule names it
            request = Request(method, readable, headers, attack.target.listener, attack.client)
            yield simulate(plan, request)


def _mirrors(action: Forward) -> set[str]:
    return {each.pool for each in action.mirrors}


def _before_rewrites(plan: Plan, pool: str, message: Message, attack: Attack) -> Iterator[tuple[str, str]]:
    """Target and host as they arrived, and as they were before rewrites on the way to `pool`."""
    target, host = message.target, "".join(message.lines("host"))
    yield target, host
    path, mark, query = target.partition("?")
    rules = [rule for each in plan.listeners for table in each.hosts for rule in table.rules]
    for route in plan.routes:
        action = route.action
        if not isinstance(action, Forward) or pool not in {each.pool for each in action.targets} | _mirrors(action):
            continue
        rewrite = action.rewrite or Rewrite()
        sent = attack.target.host if rewrite.host is not None and host.lower() == rewrite.host.lower() else host
        for rule in (each for each in rules if each.route == route.name):
            old = rule.match.path.value
            if rewrite.path == path:
                yield next(iter(rule.match.path.examples()), "/") + mark + query, sent
            elif rewrite.prefix is not None and path.startswith(rewrite.prefix):
                yield f"{old.rstrip('/')}/{path[len(rewrite.prefix) :].lstrip('/')}{mark}{query}", sent
            elif sent != host:
                yield target, sent


def _line_choices(headers: Headers, host: str) -> Iterator[Headers]:
    """The headers that rules read, with `host` as rules compare it; of several lines of a name the last, the first,
    or one that joins them."""
    lines: dict[str, list[str]] = {}
    for name, value in headers:
        if name not in _FRAMING:
            lines.setdefault(name, []).append(_CONTROL.sub("?", value))
    plain = re.sub(r":[^][:]*$", "", host).lower().removesuffix(".")
    lines["host"] = [plain if _NAME.fullmatch(plain) else _OTHER]
    for choice in (lambda of: of[-1:], lambda of: of[:1], lambda of: [", ".join(of)]):
        yield tuple((name, value) for name, of in lines.items() for value in choice(of))
        if all(len(of) == 1 for of in lines.values()):
            return


def _changed_fields(
    listener: Listener, attack: Attack, message: Message, route: Route, plain: Message
) -> Iterator[str]:
    """Fields at the endpoint that the client set, hid or removed."""
    for name in {n for line in message.lines("connection") for n in line.lower().replace(" ", "").split(",")} - {""}:
        if name not in _HOP:
            yield f"Connection names {name}"
    if not listener.underscores:
        for name, _ in message.headers:
            if "_" in name:
                yield f"a field {name} that the listener drops"
    if not listener.trusted_proxies:
        for name in (*_FORWARDED, *sorted(client_fields(listener))):
            usual, got = plain.lines(name), message.lines(name)
            if name == "forwarded" and "forged" not in "".join(got):
                usual, got = [_for(each) for each in usual], [_for(each) for each in got]
            right = [_expected(name, attack, message, value) for value in usual]
            if name == "x-forwarded-host" and "".join(got) == "" and not attack.names_host:
                continue
            if name == "x-forwarded-proto" and got in (["ws"], ["wss"]):  # Traefik's words for a WebSocket
                continue
            if name == "x-forwarded-port" and got == [_port("".join(message.lines("host")))]:  # Traefik's: of the Host
                continue
            if len(got) != len(usual) or any(each not in (None, _address("".join(got[:1]).lower())) for each in right):
                yield f"{name}: {got}, a plain request has {usual}"
            elif "forged" in "".join(got):
                yield f"{name} is the client's: {got}"
    edits = route.request_headers
    for name, value in (*edits.set, *((name, None) for name in edits.remove)):
        if isinstance(value, Template):  # of facts of the request
            if "forged" in "".join(message.lines(name)) and not any(
                each.fact in _SENT for each in placeholders_of(value)
            ):
                yield f"{name} is the client's: {message.lines(name)}"
        elif message.lines(name) != ([] if value is None else [value]):
            yield f"{name}: {message.lines(name)}, the route makes it {value}"
    if listener.trusted_proxies and listener.forwarded_headers:
        last = ", ".join(message.lines("x-forwarded-for")).rpartition(",")[2].strip()
        if _address(last) != _address(attack.client):
            yield f"x-forwarded-for ends with {last!r}, not with the peer {attack.client}"


def _for(element: str) -> str:
    """The address in an element of Forwarded as lbgen writes it; all of an element that has several."""
    if _QUOTED.sub("", element).count("for=") != 1:
        return element
    return element.partition(";")[0].removeprefix("for=").strip('"[]')


def _port(host: str) -> str:
    """The port of a Host field, or ""."""
    return host.rpartition(":")[2] if re.search(r":[^][:]+$", host) else ""


def _expected(name: str, attack: Attack, message: Message, usual: str) -> str | None:
    """The value of a forwarded field, in lower case, where a plain request has `usual`; None for a new request id."""
    if name in ("x-forwarded-for", "x-real-ip", "forwarded"):
        return _address(attack.client)
    if name == "x-forwarded-host":  # a host that a route rewrites stays as it was sent
        return "".join(message.lines("host")).lower() if usual else usual
    return None if name == "x-request-id" else usual.lower()


def _address(value: str) -> str:
    """An IPv4 address for its IPv6-mapped form; any other text as it is."""
    try:
        address = ip_address(value)
    except ValueError:
        return value
    return str(getattr(address, "ipv4_mapped", None) or address)
