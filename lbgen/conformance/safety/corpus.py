"""The corpus, filled in for a topology: attacks, each with a mark of its own."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from lbgen.plan.forwarding import state_client
from lbgen.plan.model import Forward, Listener, Plan
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate
from lbgen.runtime.common.route_probes import Probe, make_probes

Fields = tuple[tuple[str, str], ...]
_MOST_OPEN, _MOST_GUARDED = 2, 2  # routes of a listener between whose paths attacks are spelled


class Target(Struct, frozen=True):
    """What attacks on a listener are filled in with: a route that anyone may use, and another that they go for."""

    listener: str
    open: str
    host: str
    guarded: str
    guarded_host: str

    def fill(self, text: str, mark: str) -> str:
        """`text` of the corpus with its placeholders replaced."""
        hidden = f"GET {self.open}/hidden-{mark} HTTP/1.1\r\nHost: {self.host}\r\n\r\n"
        words = {
            "<guarded-escaped>": "/" + "".join(f"%{ord(each):02x}" for each in self.guarded[1:]),
            "<guarded-upper>": self.guarded.upper(),
            "<guarded-host-upper>": self.guarded_host.upper(),
            "<guarded-host>": self.guarded_host,
            "<guarded>": self.guarded,
            "<hidden-size>": str(len(hidden)),
            "<hidden-hex>": f"{len(hidden):x}",
            "<hidden>": hidden,
            "<next>": hidden.replace("/hidden-", "/next-"),
            "<open>": self.open,
            "<host>": self.host,
            "<mark>": mark,
        }
        for word, value in words.items():
            text = text.replace(word, value)
        return text


class Attack(Struct, frozen=True):
    """One connection: `data` (HTTP/1.1), or a request of HTTP/2 of `fields`, `body` and `trailers`. `shown` names it in
    reports. `whole` False: what it sends is no whole request. `client`: its address, where a PROXY header says so."""

    target: Target
    mark: str
    shown: str
    data: bytes = b""
    fields: Fields = ()
    body: bytes = b""
    trailers: Fields = ()
    whole: bool = True
    client: str = "127.0.0.1"

    @property
    def names_host(self) -> bool:
        """Whether it says for which host it is."""
        fields = dict(self.fields)
        in_head = re.search(rb"(?i) HTTP/1[^\0]*\nhost[ \t]*:[ \t]*[^\s]", self.data)
        return bool(in_head or fields.get(":authority") or fields.get("host"))


@cache
def corpus() -> Mapping[str, Any]:
    """The corpus as data."""
    found: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("corpus.yaml").read_text(encoding="utf-8"))
    return found


def new_mark() -> str:
    """A mark that no other request has; see `endpoint.MARK`."""
    return f"mark{secrets.token_hex(5)}"


def targets(plan: Plan) -> dict[str, list[Target]]:
    """By L7 listener: targets of attacks."""
    probes: dict[str, list[Probe]] = {}
    for probe in make_probes(plan):
        if probe.request is not None:
            probes.setdefault(probe.listener, []).append(probe)
    found: dict[str, list[Target]] = {}
    for name, every in probes.items():
        plain = sorted((each for each in every if _is_open(plan, each)), key=lambda each: _interest(plan, each))[
            :_MOST_OPEN
        ]
        for usual in plain:
            paths = {_path(each): each for each in reversed(every) if _path(each) not in ("/", _path(usual))}
            others = [each for each in every if each in paths.values()] or [usual]
            hosts = [_host(each) for each in every if _host(each) != _host(usual)] or [_host(usual)]
            found.setdefault(name, []).extend(
                Target(name, _path(usual).rstrip("/"), _host(usual), _path(each).rstrip("/"), hosts[0])
                for each in others[:_MOST_GUARDED]
            )
    return found


def _interest(plan: Plan, probe: Probe) -> tuple[bool, int]:
    """Open routes that set fields come first, then those with the longest paths."""
    return not plan.route(probe.route).request_headers, -len(_path(probe))


def _is_open(plan: Plan, probe: Probe) -> bool:
    """Whether a plain GET below the path of this route reaches an endpoint by it, with its mark in the path."""
    if probe.request is None or probe.status is not None or not probe.pools:
        return False
    action = plan.route(probe.route).action
    if isinstance(action, Forward) and action.rewrite is not None and action.rewrite.path is not None:
        return False
    below = f"{_path(probe).rstrip('/')}/{new_mark()}"
    outcome = simulate(plan, Request("GET", below, (("Host", _host(probe)),), probe.listener))
    return outcome.route == probe.route and bool(outcome.upstreams)


def _path(probe: Probe) -> str:
    return probe.request.target.partition("?")[0] if probe.request is not None else "/"


def _host(probe: Probe) -> str:
    found = probe.request.headers if probe.request is not None else ()
    return next((value for name, value in found if name.lower() == "host"), "")


def attacks(plan: Plan) -> Iterator[Attack]:
    """All attacks on the L7 listeners of `plan` that have an open route."""
    for name, every in targets(plan).items():
        listener = plan.listener(name)
        for target in every:
            for text in corpus()["paths"]:
                yield from _requests(listener, target, path=text, shown=text)
        target = every[0]
        for lines in corpus()["fields"]:
            yield from _requests(listener, target, lines=lines, shown=" | ".join(lines))
        for kind in ("messages", "cut"):
            for text in corpus()[kind]:
                mark = new_mark()
                data = target.fill(text, mark).encode("latin-1")
                yield Attack(target, mark, text, data, whole=kind == "messages")
        if listener.http2:
            for each in corpus()["http2"]:
                yield _http2(target, each)
        if listener.proxy_protocol or listener.trusted_proxies:
            for address in corpus()["clients"]:
                yield from _from_client(listener, every, address)


def _requests(
    listener: Listener, target: Target, path: str = "<open>/<mark>", lines: Iterable[str] = (), shown: str = ""
) -> Iterator[Attack]:
    """A GET with that path and these further header lines, over each version of HTTP."""
    mark = new_mark()
    head = [f"GET {path} HTTP/1.1", "Host: <host>", "X-Mark: <mark>", *lines, "", ""]
    yield Attack(target, mark, shown, target.fill("\r\n".join(head), mark).encode("latin-1"))
    if listener.http2:
        pairs = (line.partition(":") if line[:1] != ":" else ("", "", line) for line in lines)
        given = [f"{name.strip().lower()}: {value.strip()}" for name, _, value in pairs]
        yield _http2(target, {"fields": [f":path: {path}", *given]})


def _http2(target: Target, how: Mapping[str, Any]) -> Attack:
    """A request of HTTP/2 with fields that replace the usual ones, or come on top of them."""
    mark = new_mark()
    usual = [":method: GET", ":scheme: http", ":path: <open>/<mark>", ":authority: <host>"]
    if how.get("body"):
        usual[0] = ":method: POST"
    given = [_split(line) for line in how.get("fields", ())]
    replaced = {name for name, _ in given if name.startswith(":")}
    fields = [_split(line) for line in usual if _split(line)[0] not in replaced]
    # Pseudo-fields come first; one more of them behind the usual ones.
    every = sorted([*fields, ("x-mark", "<mark>"), *given], key=lambda pair: not pair[0].lstrip("+").startswith(":"))
    filled = tuple((target.fill(name.removeprefix("+"), mark), target.fill(value, mark)) for name, value in every)
    trailers = tuple((name, target.fill(value, mark)) for name, value in map(_split, how.get("trailers", ())))
    body = target.fill(how.get("body", ""), mark).encode("latin-1")
    shown = f"HTTP/2 {' | '.join(how.get('fields', ()))} {how.get('body', '')} {how.get('trailers', '')}".strip()
    return Attack(target, mark, shown, b"", filled, body, trailers, how.get("length", True))


def _split(line: str) -> tuple[str, str]:
    """Name and value of a field, whose name may begin with a colon."""
    at = line.find(":", 2)
    return (line[:at], line[at + 1 :].removeprefix(" ")) if at > 0 else (line, "")


def _from_client(listener: Listener, every: Iterable[Target], address: str) -> Iterator[Attack]:
    """A plain request of a client with that address to each guarded path."""
    for target in every:
        mark = new_mark()
        lines = [f"GET {target.guarded}/{mark} HTTP/1.1", f"Host: {target.host}"]
        if listener.proxy_protocol:
            data, client = "\r\n".join((*lines, "", "")), address
        else:
            stated = ": ".join(state_client(listener, address))
            data, client = "\r\n".join((*lines, stated, "", "")), "127.0.0.1"
        yield Attack(target, mark, f"<guarded>/<mark> of {address}", data.encode(), client=client)
