"""Verification of what is deployed elsewhere, by its URLs: what a client can see, judged by the oracle.

Endpoints that are stand-ins say who they are and what reached them, so requests to them are judged as in any
verification. Others get one GET for each route, which shows that they are none: further requests to them could change
something and tell nothing, so that only what the balancer answers by itself is judged. What is not sent has a reason.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.case import Case, CaseFile
from lbgen.conformance.engine_under_test import EngineUnderTest
from lbgen.conformance.http2_client import fetch
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.prepare import Prepared, verdicts_on
from lbgen.conformance.runner import CaseState, EngineSession, Result
from lbgen.conformance.transport import transport_for
from lbgen.conformance.verify.coverage import fields_not_tried
from lbgen.conformance.verify.jobs import JobProgress
from lbgen.conformance.verify.report import Report, VerifiedEngine
from lbgen.conformance.verify.requests import request_cases
from lbgen.conformance.verify.time_scaling import Scale
from lbgen.diagnostics import Diagnostic, EngineError, UsageError
from lbgen.engines.api import Engine, target_version
from lbgen.plan.model import Listener, Mode, Plan
from lbgen.plan.simulate import simulate
from lbgen.runtime.standins.server import StandInServers

if TYPE_CHECKING:
    from lbgen.conformance.http1_client import Address

UNKNOWN_CLIENT = "198.51.100.7"  # of TEST-NET-2 (RFC 5737), where nobody says how the balancer sees this host
_AT_ONCE = 4
_SECONDS = 6.0
# Handshakes that show certificates, which are the balancer's own there and no files of the topology.
_CERTIFICATES = ("5.tls.sni", "5.tls.no-sni", "5.tls.unknown", "5.tls.client")


class _Balancer(Struct, frozen=True):
    """What serves, as `ServingEngine` has it: its addresses by listener, and nothing else of it."""

    addresses: Mapping[str, Address]

    def address(self, listener: str) -> Address:
        return self.addresses[listener]

    def access_lines(self) -> list[str]:
        return []

    def ensure_alive(self) -> None:
        """Nobody but its clients can tell."""


def verify_deployed(
    plan: Plan,
    target: Engine,
    urls: Mapping[str, str],
    *,
    client: str = "",
    requests: int,
    seed: int,
    progress: Callable[[JobProgress], None],
) -> Report:
    """Send requests of `plan` to `urls` (by listener; "" = the only one that reads requests), and compare the answers.

    `target` is the engine that serves there: its verdicts say what may differ. `client` is the address from which it
    sees this host; when left out it is this host's own, unless the URL leads to the Internet, where what depends on it
    is not sent. `requests`, `seed`, `progress`: see `verify`. Raises UsageError LB437 for a URL that is none of a
    listener, EngineError LB437 where nothing answers.
    """
    begun = time.monotonic()
    if ":" in client:
        raise _wrong(f"requests go over IPv4, and {client} is no address of it", "write the IPv4 address of this host")
    addresses = {name: _address(plan, name, url) for name, url in _by_listener(plan, urls).items()}
    client = client or _own_address(addresses.values())
    version = target_version(target, plan.options(target.name).version)
    served = _only(plan, addresses)
    ready = Prepared(plan, served, (), verdicts_on(plan, target.name, version))
    subject = EngineUnderTest(target.name, version)
    file = CaseFile("topology", plan.name, {}, {}, ())
    session = EngineSession(subject, file, ready, StandInServers(()), _Balancer(addresses), strict=False)
    files = [each.cert for x in served.listeners if x.tls is not None for each in x.tls.certificates]
    handshakes = all(Path(each.source or each.path).is_file() for each in files)
    cases = request_cases(served, client or UNKNOWN_CLIENT, most=requests, seed=seed, handshakes=handshakes)
    sent = _Sent(plan, session, client)
    skipped = {case.id: why for case in cases if (why := sent.obstacle(case))}
    skipped |= sent.unseen(case for case in cases if case.id not in skipped)
    asked = [case for case in cases if case.id not in skipped]
    done: dict[str, Result] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for result in pool.map(session.run, asked):
            done[result.case] = result
            progress(JobProgress(target.name, "asking", len(done), len(asked)))
    results = tuple(
        done.get(x.id)
        or Result(subject.label, file.name, x.id, x.clause, CaseState.SKIPPED, f"not sent: {skipped[x.id]}")
        for x in cases
    )
    return Report(
        name=plan.name,
        results=results,
        left=(),
        served=(VerifiedEngine(target.name, version),),
        scale=Scale(),
        moved_because="",
        seconds=time.monotonic() - begun,
        untried=fields_not_tried(plan, cases, results),
    )


class _Sent:
    """Decides which cases are sent, of those for `session`, to which this host is `client` ("" = nobody knows)."""

    def __init__(self, plan: Plan, session: EngineSession, client: str) -> None:
        self.plan = plan
        self.session = session
        self.client = client

    def obstacle(self, case: Case) -> str:
        """Why a case is not sent, whatever the endpoints are; "" = it may be."""
        listener, outcome = self.plan.listener(case.request.listener), simulate(self.plan, case.request)
        route = self.plan.route(outcome.route) if outcome.route is not None else None
        if listener.tls is not None and listener.tls.client_required:
            return "its listener asks clients for a certificate"
        if case.clause in _CERTIFICATES:
            return "it is about certificates, which are the balancer's own"
        if case.request.client != (self.client or UNKNOWN_CLIENT):
            return "it comes from another client"
        asks = listener.access is not None or listener.asks_client or (route is not None and route.access is not None)
        if not self.client and (asks or outcome.upstreams):
            return "it depends on the address of this host, which --client says"
        if route is not None and (route.rate_limit is not None or route.concurrency is not None):
            return "its route limits requests"
        if route is not None and route.auth is not None and _has_credentials(case):
            return "it needs a user or a key of the topology"
        return ""

    def unseen(self, cases: Iterable[Case]) -> dict[str, str]:
        """The cases that only stand-ins can tell about, by id, where the endpoints are none; with the reason."""
        outcomes = [(case, simulate(self.plan, case.request)) for case in cases]
        seen: dict[str | None, bool] = {}
        for case, outcome in outcomes:
            if outcome.upstreams and outcome.well_formed and outcome.route not in seen and case.request.method == "GET":
                seen[outcome.route] = self._is_seen(case)
        everywhere = all(seen.values())  # what is not well-formed may reach any route
        why = "the endpoints are no stand-ins, and do not say what reaches them"
        return {
            case.id: why
            for case, outcome in outcomes
            if not (everywhere if not outcome.well_formed else seen.get(outcome.route) or not outcome.upstreams)
        }

    def _is_seen(self, case: Case) -> bool:
        """Whether a stand-in answers. EngineError LB437 where nothing does."""
        listener = self.plan.listener(case.request.listener)
        transport = transport_for(listener, case.request, case.transport)
        answer = fetch(self.session.address(listener.name), case.request, timeout=_SECONDS, transport=transport)
        return account_of(answer) is not None


def _has_credentials(case: Case) -> bool:
    return any(name.lower() == "authorization" for name, _ in case.request.headers)


def _only(plan: Plan, addresses: Mapping[str, Address]) -> Plan:
    return replace(plan, listeners=tuple(each for each in plan.listeners if each.name in addresses))


def _by_listener(plan: Plan, urls: Mapping[str, str]) -> dict[str, str]:
    """The URLs by the names of listeners. UsageError LB437 where one has no L7 listener of its own."""
    known = [each.name for each in plan.listeners if each.mode is Mode.L7]
    found: dict[str, str] = {}
    for name, url in urls.items():
        if name and name not in known:
            raise _wrong(f"there is no listener {name!r} that reads requests", f"one of: {', '.join(known)}")
        if not name and len(known) != 1:
            raise _wrong(f"{url} names no listener", f"write LISTENER={url}; one of: {', '.join(known) or 'none'}")
        found[name or known[0]] = url
    return found


def _address(plan: Plan, name: str, url: str) -> Address:
    """The first IPv4 address of the URL and its port. UsageError LB437 where it is none of the listener, EngineError
    LB437 where its name has no address."""
    listener: Listener = plan.listener(name)
    parts = urlsplit(url)
    scheme = "https" if listener.terminates_tls else "http"
    if parts.scheme != scheme or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise _wrong(f"{url} is no URL of the listener {name}", f"write {scheme}://HOST or {scheme}://HOST:PORT")
    port = parts.port or listener.port
    try:
        found = socket.getaddrinfo(parts.hostname, port, socket.AF_INET, socket.SOCK_STREAM)
        address = (str(found[0][4][0]), port)
        socket.create_connection(address, timeout=_SECONDS).close()
    except OSError as error:
        raise EngineError(Diagnostic("LB437", f"nothing answers at {url}: {error}")) from None
    return address


def _own_address(addresses: Iterable[Address]) -> str:
    """This host's address on the way there; "" where that leads to the Internet, whose hosts may see another one."""
    found = set()
    for host, port in addresses:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((host, port))
            found.add("" if ip_address(host).is_global else way.getsockname()[0])
    return found.pop() if len(found) == 1 else ""


def _wrong(message: str, hint: str) -> UsageError:
    return UsageError(Diagnostic("LB437", message, hint=hint))
