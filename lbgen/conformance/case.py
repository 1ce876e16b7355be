"""A file of cases as data into typed cases: topology, stand-ins, requests, what must come of each."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lbgen.plan.simulate import Request
from lbgen.runtime.standin import Behaviour

CASES = Path(__file__).parent / "cases"
_REQUEST = {"ask", "host", "headers", "listener", "client", "version", "body"}
_CASE = {
    "clause",
    "features",
    "why",
    "raw",
    "head",
    "script",
    "websocket",
    "tcp",
    "times",
    "clients",
    "timeout_ms",
    "expect",
}
_FILE = {"title", "topology", "stand_ins", "defaults", "cases"}

HANDSHAKE = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
)


class CaseError(ValueError):
    """A case file that cannot be read; the message names the file and the case."""


@dataclass(frozen=True, slots=True)
class Expect:
    """Literals beside the oracle; unset = only the oracle decides. Header maps: a text = that combined value, True =
    present, None = absent.

    `fault`: the proxy answers with that status although the oracle forwards (the endpoint fails). `refused`: 400 or a
    closed connection, and nothing reaches an endpoint. `cut`: the body may not end properly. `share` bounds how many
    of `times` answers come from an endpoint or pool (by name).
    """

    route: str | None = None
    pool: str | None = None
    status: int | None = None
    method: str | None = None
    target: str | None = None
    host: str | None = None
    sends: dict[str, str | bool | None] = field(default_factory=dict)
    shows: dict[str, str | bool | None] = field(default_factory=dict)
    body: str | None = None
    location: str | None = None
    fault: int | None = None
    refused: bool = False
    cut: bool = False
    within_ms: tuple[int, int] | None = None
    share: dict[str, tuple[int, int]] = field(default_factory=dict)
    sticky: bool = False
    receives: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One request (or bytes, or script) and what must come of it. `id` is unique; `clause` groups in the matrix.

    `features` names baseline features whose verdict excuses a difference; a route's own features are found by itself.
    `raw`: these bytes instead of a request. `tcp`: bytes on an L4 listener. `websocket`: messages to be echoed.
    `script`: a function of `scripts` that judges alone. `times` > 1 repeats, from `clients` addresses in turn.
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
    times: int = 1
    clients: int = 1
    timeout: float = 6.0

    @property
    def oracle(self) -> bool:
        """Whether the oracle has a say: not for raw bytes, L4 or scripts."""
        return self.raw is None and self.tcp is None and self.script is None


@dataclass(frozen=True, slots=True)
class StandInSpec:
    """How the endpoints of a pool behave."""

    listen: str = "yes"
    behaviour: Behaviour = Behaviour()  # noqa: RUF009  # frozen


@dataclass(frozen=True, slots=True)
class CaseFile:
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
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    _known(path.name, data, _FILE)
    defaults = data.get("defaults", {})
    cases: list[Case] = []
    counts: dict[str, int] = {}
    for entry in data["cases"]:
        where = f"{path.name}: {entry.get('clause', entry)}"
        _known(where, entry, _CASE | _REQUEST)
        entry = {**defaults, **entry}
        asks = entry.get("raw", entry.get("ask", "GET /"))
        for one in asks if isinstance(asks, list) else [asks]:
            clause = entry["clause"]
            counts[clause] = number = counts.get(clause, 0) + 1
            try:
                cases.append(_case(entry, one, clause if number == 1 else f"{clause}/{number}"))
            except (TypeError, ValueError, KeyError) as error:
                raise CaseError(f"{where}: {error!r}") from error
    stand_ins = {
        pool: StandInSpec(spec.get("listen", "yes"), Behaviour.parse(spec.get("behaviour", {})))
        for pool, spec in data.get("stand_ins", {}).items()
    }
    return CaseFile(path.stem, data["title"], data["topology"], stand_ins, tuple(cases))


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
    websocket = tuple(str(m).encode() for m in entry["websocket"]) if "websocket" in entry else None
    if websocket is not None:
        headers += HANDSHAKE
    body = str(entry.get("body", "")).encode("latin-1")
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
        times=int(entry.get("times", 1)),
        clients=int(entry.get("clients", 1)),
        timeout=entry.get("timeout_ms", 6000) / 1000,
    )


def _expect(data: dict[str, Any]) -> Expect:
    _known("expect", data, {f.name for f in fields(Expect)})
    found = dict(data)
    for name in ("sends", "shows"):
        found[name] = {k.lower(): v for k, v in data.get(name, {}).items()}
    if "within_ms" in data:
        found["within_ms"] = tuple(data["within_ms"])
    found["share"] = {k: (v[0], v[1]) for k, v in data.get("share", {}).items()}
    return Expect(**found)


def clauses(files: tuple[CaseFile, ...]) -> tuple[str, ...]:
    """Every clause once, in the order of the files."""
    return tuple(dict.fromkeys(case.clause for case in itertools.chain.from_iterable(f.cases for f in files)))
