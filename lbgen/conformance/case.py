"""Case files: typed cases, their topology, stand-ins, requests and expected answers."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from lbgen.conformance.http1_client import filler
from lbgen.conformance.transport import DEFAULT, TransportOptions
from lbgen.plan.request import Request
from lbgen.runtime.common.tokens import token
from lbgen.runtime.standins.stand_in import Behaviour

CASES = Path(__file__).parent / "cases"
_BOOL = "tag:yaml.org,2002:bool"
_SIZES = {"target_size", "header_size", "header_lines"}
_REQUEST = {"ask", "token", "host", "headers", "listener", "client", "version", "body", "tls", "proxy", *_SIZES}
_KINDS = {"raw", "send", "script", "with", "tries", "websocket", "tcp", "times", "clients"}
_CASE = {"clause", "features", "why", "routes", "timeout_ms", "expect", *_KINDS, *_REQUEST}
_BODY = {"text", "size", "chunked"}
_FILE = {"title", "topology", "stand_ins", "defaults", "about", "cases"}

HANDSHAKE = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # one of two classes
    """`on` is a text, as in YAML 1.2: it is a key of retries."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != _BOOL]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"(?:true|false)\Z"), list("tf"))


class CaseError(ValueError):
    """A case file that cannot be read; the message names the file and the case."""


class Expect(Struct, frozen=True):
    """Literals beside the oracle; unset = only the oracle decides. Header maps: a text = that combined value, True =
    present, None = absent. `status`: one of several will do.

    `fault`: the proxy answers with that status although the oracle forwards (the endpoint fails). `refused`: 400 or a
    closed connection, and nothing reaches an endpoint. `dropped`: 408 or a closed connection, and no endpoint answers.
    `cut`: the body may not end properly. `share` bounds how many of `times` answers come from an endpoint or pool (by
    name). `tries`: how often the request reached endpoints, `visits`: how many different ones.
    `unanswered`: the connection is closed without any answer, `no_handshake`: before the end of the TLS handshake.
    `denied`: the service that is asked about the request does not admit it, so the answer is its own, then `sends` and
    `saw` are what it got, or the proxy's, with one of `status`.
    `saw`: parts of the endpoint's account by dotted path.
    `tls`: parts of `Handshake`; `trailers`: those of the answer.
    """

    route: str | None = None
    pool: str | None = None
    status: int | tuple[int, ...] | None = None
    method: str | None = None
    target: str | None = None
    host: str | None = None
    sends: dict[str, str | bool | None] = field(default_factory=dict)
    shows: dict[str, str | bool | None] = field(default_factory=dict)
    body: str | None = None
    location: str | None = None
    fault: int | None = None
    refused: bool = False
    dropped: bool = False
    cut: bool = False
    within_ms: tuple[int, int] | None = None
    share: dict[str, tuple[int, int]] = field(default_factory=dict)
    sticky: bool = False
    receives: str | None = None
    tries: int | None = None
    visits: int | None = None
    unanswered: bool = False
    denied: bool = False
    no_handshake: bool = False
    saw: dict[str, Any] = field(default_factory=dict)
    tls: dict[str, Any] = field(default_factory=dict)
    trailers: dict[str, str | bool | None] = field(default_factory=dict)

    @property
    def statuses(self) -> tuple[int, ...]:
        """The accepted statuses; empty when every status is accepted."""
        if self.status is None:
            return ()
        return self.status if isinstance(self.status, tuple) else (self.status,)


class Case(Struct, frozen=True):
    """One request (or bytes, or script) and what must come of it. `id` is unique; `clause` groups in the matrix.

    `features` names features, or parts of them (`framing.malformed.folded`), whose verdict excuses a difference; a
    file's `about` makes such a part of each clause.
    `raw`: these bytes instead of a request. `send`: bytes with pauses (seconds) between them. `tcp`: bytes on an L4
    listener. `websocket`: messages to be echoed. `script`: a function of `scripts` that gets `params` and judges alone;
    `routes` are those it needs (default: all). `steps`: what endpoints do with the first, second ... try of the
    request. `times` > 1 repeats, from `clients` addresses in turn. `tries_fields`: fields of a user's topology that it
    tries beside those of its clause (`verify/coverage.py`).
    """

    id: str
    clause: str
    request: Request
    expect: Expect
    features: tuple[str, ...] = ()
    raw: bytes | None = None
    tcp: bytes | None = None
    websocket: tuple[bytes, ...] | None = None
    script: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    routes: tuple[str, ...] = ()
    send: tuple[bytes | float, ...] | None = None
    steps: tuple[dict[str, Any], ...] = ()
    times: int = 1
    clients: int = 1
    timeout: float = 6.0
    transport: TransportOptions = DEFAULT
    tries_fields: tuple[str, ...] = ()

    @property
    def oracle(self) -> bool:
        """Whether the oracle judges the answer: not for raw bytes, L4 or scripts."""
        return self.raw is None and self.tcp is None and self.script is None and self.send is None


class StandInSpec(Struct, frozen=True):
    """How the endpoints of a pool, or one of them (`POOL-NUMBER`), behave. `certificate` (one of `certificates.SPECS`)
    and `client_ca` are for pools with TLS; `plain`: they do not speak it. `client_required`: clients show theirs."""

    listen: str = "yes"
    behaviour: Behaviour = Behaviour()  # frozen
    certificate: str = "endpoint"
    client_ca: str = ""
    client_required: bool = False
    plain: bool = False


class CaseFile(Struct, frozen=True):
    """All cases that share a topology (as data, without ports that matter)."""

    name: str
    title: str
    topology: dict[str, Any]
    stand_ins: dict[str, StandInSpec]
    cases: tuple[Case, ...]


@cache
def case_files() -> tuple[CaseFile, ...]:
    """Every file of `cases/`, in the order of their names."""
    return tuple(load_file(path) for path in sorted(CASES.glob("*.yaml")))


def load_file(path: Path) -> CaseFile:
    """The cases of one file; CaseError on an unknown key or a case that asks for nothing."""
    data = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506  # a SafeLoader
    _known(path.name, data, _FILE)
    defaults = data.get("defaults", {})
    cases: list[Case] = []
    counts: dict[str, int] = {}
    for entry in data["cases"]:
        where = f"{path.name}: {entry.get('clause', entry)}"
        _known(where, entry, _CASE)
        entry = {**defaults, **entry}
        entry["features"] = [*entry.get("features", ()), *_parts(entry["clause"], data.get("about", {}))]
        asks = entry.get("raw", entry.get("ask", "GET /"))
        for one in asks if isinstance(asks, list) else [asks]:
            clause = entry["clause"]
            counts[clause] = number = counts.get(clause, 0) + 1
            try:
                cases.append(_case(entry, one, clause if number == 1 else f"{clause}/{number}"))
            except (TypeError, ValueError, KeyError) as error:
                raise CaseError(f"{where}: {error!r}") from error
    stand_ins = {pool: _stand_in(spec) for pool, spec in data.get("stand_ins", {}).items()}
    return CaseFile(path.stem, data["title"], data["topology"], stand_ins, tuple(cases))


def _stand_in(data: dict[str, Any]) -> StandInSpec:
    return StandInSpec(**{**data, "behaviour": Behaviour.parse(data.get("behaviour", {}))})


def _parts(clause: str, about: dict[str, str]) -> list[str]:
    """`6.backup.by-retry` -> `pool.backup.by_retry`, when `about` says that `6.backup` is about `pool.backup`."""
    prefix, _, last = clause.rpartition(".")
    return [f"{about[prefix]}.{last.replace('-', '_')}"] if prefix in about else []


def _known(where: str, data: dict[str, Any], keys: set[str]) -> None:
    if unknown := set(data) - keys:
        raise CaseError(f"{where}: unknown keys {sorted(unknown)}")


def _case(entry: dict[str, Any], ask: str, name: str) -> Case:
    raw = ask.encode("latin-1") if "raw" in entry else None
    method, _, target = ("GET /" if raw is not None else ask).partition(" ")
    headers: list[tuple[str, str]] = []
    if (host := entry.get("host")) is not None:
        headers.append(("Host", str(host)))
    for line in entry.get("headers", []):
        header, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"header without colon: {line!r}")
        headers.append((header, value[1:] if value.startswith(" ") else value))
    if "token" in entry:
        claims = dict(entry["token"])
        headers.append(("Authorization", f"Bearer {token(claims, claims.pop('made', 'ES256'))}"))
    target += "x" * (entry.get("target_size", 0) - len(target))
    headers += _fill(entry.get("header_size", 0), entry.get("header_lines", 1))
    websocket = tuple(str(m).encode() for m in entry["websocket"]) if "websocket" in entry else None
    if websocket is not None:
        headers += HANDSHAKE
    body, framing = _body(entry.get("body", ""))
    headers += framing
    request = Request(
        method,
        target,
        tuple(headers),
        entry.get("listener", ""),
        entry.get("client", "127.0.0.1"),
        str(entry.get("version", "1.1")),
        body,
    )
    return Case(
        id=name,
        clause=entry["clause"],
        request=request,
        expect=_expect(entry.get("expect", {})),
        features=tuple(entry.get("features", ())),
        raw=raw,
        tcp=str(entry["tcp"]).encode("latin-1") if "tcp" in entry else None,
        websocket=websocket,
        script=entry.get("script"),
        params=entry.get("with", {}),
        routes=tuple(entry.get("routes", ())),
        send=_pieces(entry["send"]) if "send" in entry else None,
        steps=tuple(_step(step) for step in entry.get("tries", ())),
        times=int(entry.get("times", 1)),
        clients=int(entry.get("clients", 1)),
        timeout=entry.get("timeout_ms", 6000) / 1000,
        transport=TransportOptions(entry.get("tls"), entry.get("proxy")),
    )


def _body(data: str | dict[str, Any]) -> tuple[bytes, list[tuple[str, str]]]:
    """A text, or `{ text | size, chunked }`: the bytes, and the headers that frame them."""
    if isinstance(data, str):
        return data.encode("latin-1"), []
    _known("body", data, _BODY)
    body = filler(data["size"]) if "size" in data else str(data["text"]).encode("latin-1")
    return body, [("Transfer-Encoding", "chunked")] if data.get("chunked") else []


def _fill(size: int, lines: int) -> list[tuple[str, str]]:
    """Headers of `size` bytes together, name + value + 4 each."""
    return [(f"X-Fill-{n:02}", "x" * (size // lines - 13)) for n in range(lines if size else 0)]


def _pieces(data: list[str | int]) -> tuple[bytes | float, ...]:
    """Texts as bytes, numbers (milliseconds) as seconds."""
    return tuple(one.encode("latin-1") if isinstance(one, str) else one / 1000 for one in data)


def _step(data: str | int | dict[str, Any]) -> dict[str, Any]:
    """A mode of `Behaviour`, a status, or fields of `Behaviour`."""
    if isinstance(data, int):
        data = {"mode": "fixed", "status": data, "body": f"the endpoint's own {data}\n"}
    elif isinstance(data, str):
        data = {"mode": data}
    Behaviour.parse(data)
    return data


def _expect(data: dict[str, Any]) -> Expect:
    _known("expect", data, set(Expect.__struct_fields__))
    found = dict(data)
    for name in ("sends", "shows", "trailers"):
        found[name] = {k.lower(): v for k, v in data.get(name, {}).items()}
    if isinstance(data.get("status"), list):
        found["status"] = tuple(data["status"])
    if "within_ms" in data:
        found["within_ms"] = tuple(data["within_ms"])
    found["share"] = {k: (v[0], v[1]) for k, v in data.get("share", {}).items()}
    return Expect(**found)
