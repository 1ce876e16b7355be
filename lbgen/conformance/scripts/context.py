"""The context of a script (addresses, stand-ins, plan, parameters) and helpers that scripts share."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from lbgen.conformance.http1_client import TIMEOUT, Address, Answer, ClientConnection, fetch
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.pages import replaced_status, replacing_page
from lbgen.conformance.transport import (
    Transport,
    TransportOptions,
    client_hello,
    host_of,
    transport_for,
    without_verification,
)
from lbgen.plan.model import Mode, Plan, Protocol
from lbgen.plan.own_statuses import is_own_status
from lbgen.plan.request import Request
from lbgen.runtime.local.network import reaches
from lbgen.runtime.standins.http1 import CONTROL
from lbgen.runtime.standins.server import StandInServers
from lbgen.runtime.standins.stand_in import Behaviour

if TYPE_CHECKING:
    from lbgen.conformance.difference import Difference


_ANY = Request()


OK = Behaviour()
CHECK = "/healthz"  # the path of checks in the case files
HANDOVER = 0.5  # seconds in which old and new workers may serve side by side after a change
TAKES_HOLD = 0.05  # seconds until an ejection surely counts, on a busy machine too; promised are 10 ms
_ANSWERED = 1.0  # seconds for the answer to a datagram
PATIENCE = 4.0  # seconds that an engine has to notice something
NOBODY = "no endpoint"  # what `who_answers` says where none is left


class ScriptContext(Struct, frozen=True):
    """`at` is the address of each listener by name. `params` is the case's `with`. `log` reads the lines of
    the engine's access log, each with what it says in lbgen's own schema: nothing where the line is about a connection
    of an L4 listener. `own`: see `judge.differences`. `metrics` reads the plan's metrics, "" where no agent serves
    them."""

    at: Mapping[str, Address]
    endpoints: StandInServers
    plan: Plan
    log: Callable[[], list[tuple[str, Mapping[str, object]]]]
    params: Mapping[str, Any] = field(default_factory=dict)
    own: frozenset[tuple[str, str]] = frozenset()
    metrics: Callable[[], str] = str

    @property
    def listener(self) -> str:
        """The listener that the case asks."""
        return str(self.params.get("listener", "web"))

    @property
    def target(self) -> str:
        """The target that the case asks for: `target`, or the path of its `pool`."""
        return str(self.params["target"] if "target" in self.params else f"/{self.params['pool']}")

    def endpoint(self, number: int) -> str:
        """The name of an endpoint of the case's pool."""
        return f"{self.params['pool']}-{number}"

    @property
    def asked(self) -> int:
        """How many requests came to endpoints."""
        return sum(self.endpoints.requests.values())

    def transport(self, listener: str, request: Request, options: TransportOptions | None = None) -> Transport:
        """What comes before HTTP on that listener; without `options` its certificate is not verified."""
        asked = self.plan.listener(listener)
        return transport_for(asked, request, options or without_verification(asked, request))

    def connect(self, request: Request = _ANY, *, timeout: float = TIMEOUT) -> ClientConnection:
        """A connection of the client of a request to its listener (default: the case's own)."""
        name = request.listener or self.listener
        address, transport = self.at[name], self.transport(name, request)
        return ClientConnection(address, client=request.client, timeout=timeout, transport=transport)

    def ask(self, request: Request, *, timeout: float = TIMEOUT) -> Answer:
        """The answer to a request on its listener (default: the case's own), with the status that an error page
        has replaced."""
        name = request.listener or self.listener
        answer = fetch(self.at[name], request, timeout=timeout, transport=self.transport(name, request))
        page = replacing_page(self.plan, answer)
        return answer if page is None else replace(answer, status=replaced_status(page))


class MismatchError(Exception):
    """What a script finds wrong, where the rest of it would tell nothing more."""


def require(holds: object, found: Difference | str) -> None:
    """Raise MismatchError with what was found unless `holds`."""
    if not holds:
        raise MismatchError(found)


def control(**behaviour: object) -> tuple[str, str]:
    """The header that tells the endpoint how to behave (fields of `Behaviour`, `tag`, `steps`)."""
    return CONTROL, json.dumps(behaviour)


def with_control(request: Request, **behaviour: object) -> Request:
    """`request` with the header that tells its endpoint how to behave."""
    return replace(request, headers=(*request.headers, control(**behaviour)))


def who_answers(ctx: ScriptContext, request: Request) -> str:
    """The endpoint that answers on the request's listener, at layer 4 as well; `NOBODY` where none does, else the
    status that came without one."""
    listener = ctx.plan.listener(request.listener)
    address = ctx.at[listener.name]
    if listener.protocol is Protocol.UDP:
        got = exchange_datagram(address, b"x", request.client)
        return NOBODY if got is None else got.partition(b": ")[0].decode()
    if listener.tls is not None and listener.tls.passthrough:
        return _end_of_hello(ctx, request)
    answer = ctx.ask(request)
    account = account_of(answer)
    if account is not None:
        return str(account["name"])
    failed = answer.status is None if listener.mode is Mode.L4 else is_own_status(answer.status, 503)
    return NOBODY if failed else str(answer.status)


def _end_of_hello(ctx: ScriptContext, request: Request) -> str:
    """The endpoint that says good-bye after the first message of TLS."""
    with ClientConnection(ctx.at[request.listener], client=request.client, timeout=2) as stream:
        stream.send(client_hello(host_of(request)))
        stream.shutdown_write()
        _, mark, name = stream.read_to_end().rpartition(b"end of ")
    return name.decode().strip() if mark else NOBODY


def names_that_answer(ctx: ScriptContext, request: Request, count: int, pool: str = "") -> set[str]:
    """Who answers `count` requests; with `pool`, what endpoints of other pools answer is not counted."""
    found: set[str] = set()
    for _ in range(count * (20 if pool else 1)):
        name = who_answers(ctx, request)
        if not pool or name == NOBODY or name.rpartition("-")[0] == pool:
            found.add(name)
            count -= 1
        if count <= 0:
            break
    return found


def get(target: str, *headers: tuple[str, str], method: str = "GET") -> Request:
    """A request with the Host `h`."""
    return Request(method, target, (("Host", "h"), *headers))


def own_status(answer: Answer, contract: int) -> int | None:
    """The answer's status; `contract` for one of the engine's own that will do for it."""
    return contract if account_of(answer) is None and is_own_status(answer.status, contract) else answer.status


def account_field(answer: Answer, what: str) -> str:
    """A part of the endpoint's account, or what came instead of one."""
    account = account_of(answer)
    return str(account[what]) if account is not None else f"status {answer.status} {answer.problem}"


def count_answers(ctx: ScriptContext, count: int, target: str = "", *headers: tuple[str, str]) -> Counter[str]:
    """`count` requests one after the other: how often each endpoint answered, or each status came without one."""
    request = get(target or ctx.target, *headers)
    found: Counter[str] = Counter()
    for _ in range(count):
        answer = ctx.ask(request)
        account = account_of(answer)
        found[str(account["name"]) if account is not None else str(own_status(answer, 503))] += 1
    return found


def eventually(
    ctx: ScriptContext,
    count: int,
    holds: Callable[[Counter[str]], object],
    sentence: str,
    *,
    target: str = "",
    seconds: float = PATIENCE,
) -> None:
    """Send `count` requests again and again until `holds` of who answered them."""
    found: Counter[str] = Counter()

    def fits() -> object:
        nonlocal found
        found = count_answers(ctx, count, target)
        return holds(found)

    require(wait_until(fits, seconds), f"{sentence}: answers {dict(found)}")


def wait_until(holds: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Wait until `holds` is true; False when it is not within `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def break_endpoint(ctx: ScriptContext, name: str, how: str) -> None:
    """Make endpoint `name` fail: `refuse`, `drop`, `check N` (only the check's answer has that status, and a Location
    where it is 3xx), `check hang`, or a mode of `Behaviour` for everything. Waits until earlier changes have taken
    hold."""
    time.sleep(HANDOVER)
    if how in ("refuse", "drop"):
        ctx.endpoints.listen(name, how)
    elif how.startswith("check "):
        what = how.removeprefix("check ")
        headers = (("Location", CHECK),) if what.startswith("3") else ()
        failing = Behaviour(what) if what == "hang" else Behaviour("fixed", status=int(what), headers=headers)
        ctx.endpoints.behave(name, failing, path=CHECK)
    else:
        ctx.endpoints.behave(name, Behaviour(how))
        ctx.endpoints.behave(name, Behaviour(how), path=CHECK)


def restore_endpoint(ctx: ScriptContext, name: str) -> None:
    """Undo `break_endpoint`."""
    if name not in ctx.endpoints.listening:
        ctx.endpoints.listen(name, "yes")
    ctx.endpoints.behave(name, OK)
    ctx.endpoints.behave(name, OK, path=CHECK)


@contextmanager
def broken_endpoint(ctx: ScriptContext, name: str, how: str) -> Iterator[None]:
    """Break endpoint `name` as `break_endpoint`, and restore it when the block ends."""
    break_endpoint(ctx, name, how)
    try:
        yield
    finally:
        restore_endpoint(ctx, name)


@contextmanager
def behaving(ctx: ScriptContext, name: str, behaviour: Behaviour) -> Iterator[None]:
    """Have endpoint `name` answer as `behaviour` says until the block ends."""
    ctx.endpoints.behave(name, behaviour)
    try:
        yield
    finally:
        ctx.endpoints.behave(name, OK)


def exchange_datagram(address: Address, data: bytes, client: str = "127.0.0.1") -> bytes | None:
    """What comes back for a datagram of `client` from a port of its own; None when nothing does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        if reaches(client, address[0]):
            sock.bind((client, 0))
        sock.settimeout(_ANSWERED)
        sock.connect(address)  # so that an answer from anywhere else is not taken
        try:
            sock.send(data)
            return sock.recv(70_000)
        except (TimeoutError, ConnectionRefusedError):
            return None


@contextmanager
def held(ctx: ScriptContext, targets: Sequence[str], *seconds: float) -> Iterator[list[Future[Answer]]]:
    """Requests that are under way at endpoints, one after the other, and that end after so many seconds (the last
    number counts for all others)."""
    with ThreadPoolExecutor(8) as pool:
        under_way = []
        for number, target in enumerate(targets):
            wait = seconds[min(number, len(seconds) - 1)]
            before = ctx.asked
            request = get(target, control(mode="hang", wait_ms=int(wait * 1000)))
            under_way.append(pool.submit(ctx.ask, request, timeout=TIMEOUT + wait))
            wait_until(lambda before=before: ctx.asked > before, 1)  # type: ignore[misc]
        yield under_way
