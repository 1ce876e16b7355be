"""Probes: a request for each route of a plan, the answer that it must get, and the client that sends it."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from lbgen.agent.proxy_header import own_proxy_header
from lbgen.plan.conditions import with_conditions
from lbgen.plan.model import HostPattern, Listener, Mode, Plan, PoolProtocol, Protocol, Rule
from lbgen.plan.request import Draft, Request
from lbgen.plan.simulate import simulate, simulate_l4
from lbgen.runtime.common.ports import LOOPBACK

UNKNOWN_HOST = "lbgen-probe.invalid"  # a host that no topology names
_ANSWER_SECONDS = 5.0
_DATAGRAM_SECONDS = 1.0  # then another one is sent
_LARGEST = 1 << 20
_METHODS = ("GET", "POST", "PUT", "DELETE")
_GRPC_HEADERS = (("Content-Type", "application/grpc"), ("TE", "trailers"))
_NO_ENDPOINT = frozenset({502, 503, 504})


class ConnectOptions(Struct, frozen=True):
    """`proxied`: a PROXY header comes first. `tls`: then a handshake, for the server name `sni` (None = without)."""

    proxied: bool = False
    tls: bool = False
    sni: str | None = None

    def open(self, host: str, port: int, timeout: float, alpn: str = "http/1.1") -> socket.socket:
        """Open a connection for the protocol `alpn`. The certificate is not verified, since only a probe connects.

        Raises OSError (also ssl.SSLError).
        """
        sock = socket.create_connection((host, port), timeout)
        try:
            if self.proxied:
                sock.sendall(own_proxy_header("v1", sock))
            if not self.tls:
                return sock
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.set_alpn_protocols([alpn])
            return context.wrap_socket(sock, server_hostname=self.sni)
        except OSError:
            sock.close()
            raise


def connect_options(listener: Listener, sni: HostPattern | None = None) -> ConnectOptions | None:
    """Return how a probe connects to `listener` (L4: by a rule for `sni`); None when it would need a client
    certificate."""
    tls = listener.tls
    if tls is None:
        return ConnectOptions(listener.proxy_protocol)
    if tls.client_required:
        return None
    names = [name for pair in tls.certificates for name in pair.names]
    name = sni or next(iter(names), None)
    return ConnectOptions(listener.proxy_protocol, True, None if name is None else _host(name))


def _host(pattern: HostPattern) -> str:
    return f"lbgen-probe.{pattern.name}" if pattern.wildcard else pattern.name


class Probe(Struct, frozen=True):
    """A request that belongs to `route` on `listener`, which it reaches as `connect` says. `status` is the proxy's own
    answer; None: one of `pools` answers. `others` are right as well, since limits count what came before. `request`
    None: an L4 route, asked in HTTP as that is what stand-ins speak, or with a datagram (`datagrams`). `real`: some
    endpoint may be no stand-in, so that any answer is right that came through. `grpc`: it is a gRPC call, over HTTP/2.
    `passthrough`: the endpoint takes part in the TLS handshake."""

    route: str
    listener: str
    field: str
    request: Request | None
    status: int | None
    pools: frozenset[str]
    others: tuple[int, ...] = ()
    connect: ConnectOptions = ConnectOptions()
    real: bool = False
    datagrams: bool = False
    grpc: bool = False
    passthrough: bool = False


def make_probes(plan: Plan, client: str = LOOPBACK) -> tuple[Probe, ...]:
    """One probe per listener and route for which a request could be made up, in the order of the routes. `client`: the
    address that the engine sees, by which access lists and `sources` decide.

    A listener that wants certificates of its clients gets none: we have no such certificate. Nor do datagram routes to
    endpoints that are no stand-ins, which need not answer what they do not understand.
    """
    found: dict[tuple[str, str], Probe] = {}
    for listener in plan.listeners:
        way = connect_options(listener)
        if way is None:
            continue
        if listener.mode is Mode.L4:
            _l4(plan, listener, client, found)
            continue
        rules = {rule.id: rule for table in listener.hosts for rule in table.rules}
        for rule in sorted(rules.values(), key=lambda each: each.rank):
            if (listener.name, rule.route) not in found:
                probe = _l7(plan, listener, rule, way, client)
                if probe is not None:
                    found[listener.name, rule.route] = probe
    order = {route.name: route.index for route in plan.routes}
    return tuple(sorted(found.values(), key=lambda each: (order[each.route], each.listener)))


def probes_of_change(before: Plan, after: Plan, client: str = LOOPBACK) -> tuple[tuple[Probe, ...], tuple[Probe, ...]]:
    """The probes for an engine that changes from `before` to `after`, each request once, in two groups.

    First those that `before` answers otherwise, which show that the change is in effect; then the others, which sent
    earlier would show nothing and keep the engine from loading.
    """
    found: dict[tuple[Request | str, str, ConnectOptions], Probe] = {}
    for probe in (*probes_of_removed(before, after, client), *make_probes(after, client)):
        found.setdefault((probe.request or probe.route, probe.listener, probe.connect), probe)
    shows = {key: _shows(before, probe) for key, probe in found.items()}
    first, others = (tuple(probe for key, probe in found.items() if shows[key] is each) for each in (True, False))
    return first, others


def _shows(before: Plan, probe: Probe) -> bool:
    listeners = (listener.name for listener in before.listeners if listener.mode is Mode.L7)
    if probe.request is None or probe.listener not in listeners:
        return False
    outcome = simulate(before, probe.request)
    return (outcome.status, frozenset(up.pool for up in outcome.upstreams)) != (probe.status, probe.pools)


def probes_of_removed(before: Plan, after: Plan, client: str = LOOPBACK) -> tuple[Probe, ...]:
    """The L7 probes of `before` with what `after` must answer to them: what tells that a change has taken hold."""
    listeners = {listener.name for listener in after.listeners if listener.mode is Mode.L7}
    found = []
    for probe in make_probes(before, client):
        if probe.request is None or probe.listener not in listeners:
            continue
        way = connect_options(after.listener(probe.listener))
        if way is None:
            continue
        outcome = simulate(after, probe.request)
        name = outcome.route or ""
        field = after.route(name).field if name else ""
        pools = frozenset(upstream.pool for upstream in outcome.upstreams)
        found.append(
            Probe(
                name,
                probe.listener,
                field,
                probe.request,
                outcome.status,
                pools,
                outcome.others,
                way,
                _real(after, pools),
            )
        )
    return tuple(found)


def _l4(plan: Plan, listener: Listener, client: str, found: dict[tuple[str, str], Probe]) -> None:
    udp = listener.protocol is Protocol.UDP
    for rule in listener.l4_rules:
        way = connect_options(listener, rule.sni)
        outcome = simulate_l4(plan, listener.name, None if way is None else way.sni, client)
        taken = outcome.route == rule.route and bool(outcome.pools)
        if way is not None and taken and (listener.name, rule.route) not in found:
            pools = frozenset(name for name, weight in outcome.pools if weight)
            route = plan.route(rule.route)
            real = _real(plan, pools)
            if not (udp and real):
                found[listener.name, route.name] = Probe(
                    route.name,
                    listener.name,
                    route.field,
                    None,
                    None,
                    pools,
                    connect=way,
                    real=real,
                    datagrams=udp,
                    passthrough=listener.tls is not None and listener.tls.passthrough,
                )


def _l7(plan: Plan, listener: Listener, rule: Rule, way: ConnectOptions, client: str) -> Probe | None:
    for path, method in product(rule.match.path.examples(), rule.match.methods or _METHODS):
        request = _request(listener, rule, path, method, client)
        outcome = simulate(plan, request) if request is not None else None
        if outcome is not None and outcome.route == rule.route:
            pools = frozenset(upstream.pool for upstream in outcome.upstreams)
            field = plan.route(rule.route).field
            real = _real(plan, pools)
            found = Probe(rule.route, listener.name, field, request, outcome.status, pools, outcome.others, way, real)
            return _grpc_call(plan, listener, found) or found
    return None


def _grpc_call(plan: Plan, listener: Listener, probe: Probe) -> Probe | None:
    """The probe as a gRPC call, where its endpoints are servers of gRPC; None where they are not, where clients cannot
    reach them by HTTP/2, or where the route would not take the call."""
    grpc = all(plan.pool(name).protocol is PoolProtocol.GRPC for name in probe.pools)
    if not (probe.request and probe.real and probe.status is None and grpc and listener.http2):
        return None
    named = {name.lower() for name, _ in probe.request.headers}
    headers = (*probe.request.headers, *(each for each in _GRPC_HEADERS if each[0].lower() not in named))
    request = replace(probe.request, method="POST", headers=headers, version="2")
    outcome = simulate(plan, request)
    same = outcome.route == probe.route and {each.pool for each in outcome.upstreams} == probe.pools
    return replace(probe, request=request, grpc=True) if same else None


def _real(plan: Plan, pools: frozenset[str]) -> bool:
    return any(plan.pool(name).real for name in pools)


def _request(listener: Listener, rule: Rule, path: str, method: str, client: str) -> Request | None:
    """A request that fulfils the rule's match; None when one of its regexes gave no text."""
    host = (
        UNKNOWN_HOST if rule.host is None else f"lbgen-probe.{rule.host.name}" if rule.host.wildcard else rule.host.name
    )
    draft = with_conditions(Draft(method, host, path), rule.match.conditions)
    if draft is None:
        return None
    return replace(draft.request(listener.name), method=method, client=client)


def ask(probe: Probe, host: str, port: int) -> str:
    """Send the probe once: empty when the answer is right, else what came instead."""
    if probe.datagrams:
        return _ask_datagram(probe, host, port)
    if probe.grpc:
        return _call_grpc(probe, host, port)
    connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_SECONDS)
    try:
        connection.sock = probe.connect.open(host, port, _ANSWER_SECONDS)
        if probe.request is None and probe.real:
            return ""
        send(connection, probe)
        return wrong_answer(probe, connection.getresponse())
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
        if probe.request is None and probe.real:  # Traefik asks the endpoint before it answers a TLS handshake
            return "no endpoint answers (closed before the TLS handshake)"
        return f"{type(error).__name__}: {error}"
    except ssl.SSLError as error:
        # An alert, as of a server that does not serve this name or wants a certificate, came from an endpoint.
        return "" if probe.passthrough and probe.real else f"{type(error).__name__}: {error}"
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()


def _call_grpc(probe: Probe, host: str, port: int) -> str:
    from lbgen.runtime.common import grpc_probe

    assert probe.request is not None  # noqa: S101  # an L7 probe
    try:
        with probe.connect.open(host, port, _ANSWER_SECONDS, "h2") as sock:
            return grpc_probe.call(sock, probe.request, "https" if probe.connect.tls else "http")
    except OSError as error:
        return f"{type(error).__name__}: {error}"


def _ask_datagram(probe: Probe, host: str, port: int) -> str:
    question = os.urandom(8).hex()
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(_DATAGRAM_SECONDS)
            sock.connect((host, port))
            sock.send(question.encode())
            name, _, echo = sock.recv(_LARGEST).decode("utf-8", "replace").partition(": ")
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    if echo != question or not name.startswith("pools."):
        return "an answer that is not a stand-in's"
    pool = name.split(".")[1]
    return "" if pool in probe.pools else _other_pool(probe, pool)


def _other_pool(probe: Probe, pool: object) -> str:
    return f"pool {pool} and not {' or '.join(sorted(probe.pools))}"


def send(connection: http.client.HTTPConnection, probe: Probe) -> None:
    """Send the probe's request. Raises OSError, http.client.HTTPException."""
    request = probe.request or Request(headers=(("Host", UNKNOWN_HOST),))
    connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
    for name, value in request.headers:
        connection.putheader(name, value.encode("latin-1", "replace"))
    connection.putheader("Content-Length", "0")
    connection.endheaders()


def wrong_answer(probe: Probe, answer: http.client.HTTPResponse) -> str:
    """In what the answer is not right; empty when it is."""
    if answer.status in probe.others:
        return ""
    if probe.status is not None:
        return "" if answer.status == probe.status else f"status {answer.status} and not {probe.status}"
    if probe.real:
        return f"no endpoint answers ({answer.status})" if answer.status in _NO_ENDPOINT else ""
    if answer.status != 200:
        return f"status {answer.status}"
    if probe.request is not None and probe.request.method == "HEAD":
        return ""
    try:
        pool = json.loads(answer.read(_LARGEST)).get("pool")
    except (ValueError, AttributeError):
        return "an answer that is not a stand-in's"
    return "" if pool in probe.pools else _other_pool(probe, pool)
