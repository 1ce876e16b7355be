"""`lbgen diff`: requests whose answer changes, the smallest of each kind, and changes that no request shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from lbgen.conformance.curl import curl
from lbgen.conformance.transport import transport_for, without_verification
from lbgen.conformance.verify.requests import clause_requests
from lbgen.diagnostics import counted
from lbgen.json_types import Record
from lbgen.plan.addresses import is_every_address
from lbgen.plan.auth import Auth
from lbgen.plan.error_pages import ErrorPage
from lbgen.plan.model import Forward, Mode, Plan
from lbgen.plan.request import Request
from lbgen.plan.simulate import Outcome, simulate
from lbgen.plan.tiers import Tier, parts

if TYPE_CHECKING:
    from lbgen.spec.load import Topology

CLIENT = "198.51.100.7"
# What a change of such a field means to those who use the topology; the nearest field around it counts.
MEANING = {
    "timeouts.connect": "how long a connection to an endpoint may take (then 504)",
    "timeouts.response": "how long an endpoint may take to begin its answer (then 504)",
    "timeouts.idle": "how long a body or tunnel may be silent (then it is cut)",
    "timeouts.request": "how long a request may take in all",
    "timeouts.header": "how long a client may take for the head of its request",
    "timeouts.body": "how long a client may be silent within a body",
    "timeouts.keepalive": "how long an idle client connection is kept",
    "retries": "what is tried again, and how often",
    "auth": "who is let in",
    "error_pages": "what clients see in place of an engine's own answers",
    "rate_limit": "how many requests pass before 429",
    "concurrency": "how many requests may be under way before 429",
    "mirrors": "which pools get copies of requests",
    "buffering": "whether bodies are held before they are passed on",
    "balance": "which endpoint of the pool gets a request",
    "hash_key": "which requests go to the same endpoint",
    "endpoints": "who serves the requests of the pool",
    "active": "how the pool's endpoints are checked",
    "passive": "after which failures an endpoint is left out",
    "max_per_endpoint": "how many requests an endpoint gets at a time (then they wait, or 503)",
    "queue": "how many requests wait for a free endpoint, and how long",
    "sticky": "how clients are kept at their endpoint",
    "slow_start": "how fast an endpoint that came back gets its full share",
    "keepalive": "how many idle connections to endpoints are kept",
    "keepalive_idle": "how long an idle connection to an endpoint is kept",
    "tls": "what TLS is spoken",
    "protocol": "what is spoken to endpoints",
    "proxy_protocol": "whether PROXY headers are read or sent",
    "max_connections": "how many clients may be connected",
    "access_log": "whether requests are logged",
    "address": "where clients connect",
    "port": "where clients connect",
    "mode": "whether requests or bytes are forwarded",
    "http2": "whether clients may speak HTTP/2",
}
# What a request does show, or what is no behaviour at all.
_SHOWN = frozenset({
    *("hosts", "l4_rules", "field", "index", "request_headers", "response_headers", "rewrite", "access", "max_body"),
    *("cors", "compression", "paths", "underscores", "limits", "trusted_proxies", "forwarded_headers", "request_id"),
    *("targets", "real_ip", "forwarded", "client_header"),
})  # fmt: skip
_TIERS = {"engine": "what serves the tier", "replicas": "how many serve it"}
_WALKED = ("timeouts", "active", "retries", "queue")  # told field by field


class ChangedAnswer(Struct, frozen=True):
    """A request that the two answer differently; `count` requests changed in the same way, this is the smallest."""

    listener: str
    request: Request
    routes: tuple[str, str]
    before: str
    after: str
    count: int
    curl: str

    def as_dict(self) -> ChangedAnswerRecord:
        """The JSON record."""
        request = self.request
        return {
            "listener": self.listener,
            "method": request.method,
            "target": request.target,
            "headers": list(request.headers),
            "curl": self.curl,
            "routes": self.routes,
            "before": self.before,
            "after": self.after,
            "requests": self.count,
        }


class ChangedAnswerRecord(Record):
    """A request that is answered differently, the smallest of its kind."""

    listener: str
    method: str
    target: str
    headers: list[tuple[str, str]]
    curl: Annotated[str, Meta(description="The request as a curl line.")]
    routes: Annotated[tuple[str, str], Meta(description="The route before and after; empty where none serves it.")]
    before: Annotated[str, Meta(description="What happens to it, in words.")]
    after: str
    requests: Annotated[int, Meta(description="How many requests change in the same way.")]


class FieldChange(Struct, frozen=True):
    """A field whose change no single request shows. `before` or `after` is empty where the object is not there."""

    field: str
    before: str
    after: str
    meaning: str


class ComparisonRecord(Record):
    """What changes between two topologies."""

    same: bool
    asked: Annotated[int, Meta(description="The number of requests that were compared.")]
    requests: list[ChangedAnswerRecord]
    fields: list[FieldChange]


class Comparison(Struct, frozen=True):
    """`asked` is the number of requests that were compared."""

    requests: tuple[ChangedAnswer, ...]
    fields: tuple[FieldChange, ...]
    asked: int

    def __repr__(self) -> str:
        sizes = {"changed answer": len(self.requests), "changed field": len(self.fields), "request": self.asked}
        return f"<Comparison: {counted(sizes)} asked>"

    @property
    def same(self) -> bool:
        return not self.requests and not self.fields

    def as_dict(self) -> ComparisonRecord:
        """The JSON record: same, asked, requests, fields."""
        return {
            "same": self.same,
            "asked": self.asked,
            "requests": [each.as_dict() for each in self.requests],
            "fields": msgspec.to_builtins(self.fields),
        }


def diff(before: Topology, after: Topology) -> Comparison:
    """Requests whose answer changes from one topology to another, each kind with its smallest one, and the fields whose
    change no request shows. Raises LbgenError with the findings of either."""
    return compare_tiers(parts(before), parts(after))


def compare(before: Plan, after: Plan) -> Comparison:
    """What changes from `before` to `after`: by the oracle, on the requests that either one tells apart."""
    common = {x.name for x in before.listeners if x.mode is Mode.L7} & {
        x.name for x in after.listeners if x.mode is Mode.L7
    }
    requests = dict.fromkeys(
        ask.request if ask.request.client not in ("", "127.0.0.1") else replace(ask.request, client=CLIENT)
        for plan in (before, after)
        for ask in clause_requests(plan)
        if ask.request.listener in common
    )
    groups: dict[tuple[str, str, str], list[Request]] = {}
    for request in requests:
        if kind := changed_route(before, after, request):
            groups.setdefault(kind, []).append(request)
    found = [_changed(before, after, kind, group) for kind, group in groups.items()]
    found.sort(key=lambda x: (x.listener, x.routes))
    return Comparison(tuple(found), tuple(_fields(before, after)), len(requests))


def compare_tiers(before: Sequence[Tier], after: Sequence[Tier]) -> Comparison:
    """As `compare`, tier by tier; a topology without tiers is one whose name is empty."""
    old, new = ({tier.name: tier for tier in tiers} for tiers in (before, after))
    found = [compare(old[name].plan, new[name].plan) for name in old if name in new]
    fields = [each for one in found for each in one.fields]
    for name in dict.fromkeys((*old, *new)):
        one, other = (None if tiers.get(name) is None else tiers[name] for tiers in (old, new))
        place = f"tiers.{name}" if name else "tiers"
        if one is None or other is None:
            was, now = ("" if x is None else ", ".join(y.name for y in x.plan.listeners) for x in (one, other))
            fields.append(FieldChange(place, was, now, "which proxies traffic passes, and where clients connect"))
            continue
        for key, meaning in _TIERS.items():
            was, now = (str(getattr(each, key) or "") for each in (one, other))
            if was != now:
                fields.append(FieldChange(f"{place}.{key}", was, now, meaning))
    return Comparison(
        tuple(each for one in found for each in one.requests), tuple(fields), sum(one.asked for one in found)
    )


def changed_route(before: Plan, after: Plan, request: Request) -> tuple[str, str, str] | None:
    """Listener and routes of a request that the two plans answer differently; None when they do not."""
    one, other = simulate(before, request), simulate(after, request)
    if _print(one) == _print(other):
        return None
    return request.listener, one.route or "", other.route or ""


def _print(outcome: Outcome) -> tuple[object, ...]:
    """All that a client or an endpoint can see of an outcome; ports of listeners apart, which are fields."""
    total = sum(upstream.weight for upstream in outcome.upstreams)
    shares = sorted(
        (u.pool, u.weight / total, u.method, u.target, u.host or "", tuple((n, v or "") for n, v in u.headers
         if n != "x-forwarded-port")) for u in outcome.upstreams
    )  # fmt: skip
    return (
        outcome.status, outcome.location, outcome.body, outcome.headers, tuple(shares), outcome.response_edits,
        outcome.cors_edits, outcome.compression, outcome.others,
    )  # fmt: skip


def _changed(before: Plan, after: Plan, kind: tuple[str, str, str], group: list[Request]) -> ChangedAnswer:
    smallest = min((_shrunk(before, after, kind, request) for request in group), key=_size)
    listener = before.listener(kind[0])
    host = "127.0.0.1" if is_every_address(listener.address) else listener.address
    asked = replace(smallest, client="")
    transport = transport_for(listener, asked, without_verification(listener, asked))
    line = curl((host, listener.port), asked, transport)
    one, other = simulate(before, smallest), simulate(after, smallest)
    shown = _told(one), _told(other)
    if shown[0] == shown[1]:  # what differs is behind the route and the status
        shown = f"{shown[0]}: {_behind(one, other)}", f"{shown[1]}: {_behind(other, one)}"
    return ChangedAnswer(kind[0], smallest, (kind[1], kind[2]), shown[0], shown[1], len(group), line)


def _size(request: Request) -> tuple[int, int, int, str]:
    return (
        len(request.headers),
        len(request.body),
        len(request.target),
        "" if request.method == "GET" else request.method,
    )


def _shrunk(before: Plan, after: Plan, kind: tuple[str, str, str], request: Request) -> Request:
    """As little of `request` as still changes in the same way."""
    while True:
        for smaller in _smaller(request):
            if changed_route(before, after, smaller) == kind:
                request = smaller
                break
        else:
            return request


def _smaller(request: Request) -> Iterator[Request]:
    for at, (name, _) in enumerate(request.headers):
        if name.lower() != "host":
            yield replace(request, headers=request.headers[:at] + request.headers[at + 1 :])
    if request.body:
        yield replace(request, body=b"")
    if request.method != "GET":
        yield replace(request, method="GET")
    path, mark, query = request.target.partition("?")
    if mark:
        yield replace(request, target=path)
        first, more, _ = query.partition("&")
        if more:
            yield replace(request, target=f"{path}?{first}")
    if path.startswith("/") and path != "/":
        yield replace(request, target=(path.rstrip("/").rpartition("/")[0] or "/") + mark + query)
    for at, (name, value) in enumerate(request.headers):
        if name.lower() == "host" and len(value) > 1 and value != value.lower():
            lower = (name, value.lower())
            yield replace(request, headers=(*request.headers[:at], lower, *request.headers[at + 1 :]))


def _told(outcome: Outcome) -> str:
    """An outcome in a line."""
    by = f"route {outcome.route}" if outcome.route else "no route"
    if outcome.location is not None:
        return f"{outcome.status} to {outcome.location} ({by})"
    if outcome.status is not None:
        return f"{outcome.status} ({by if outcome.route else outcome.reason})"
    total = sum(upstream.weight for upstream in outcome.upstreams)
    pools = []
    for upstream in outcome.upstreams:
        share = f" ({100 * upstream.weight / total:.3g} %)" if len(outcome.upstreams) > 1 else ""
        pools.append(f"{upstream.pool}{share} gets {upstream.method} {upstream.target}")
    return f"{' or '.join(pools)} ({by})"


def _behind(one: Outcome, other: Outcome) -> str:
    """What `one` has and `other` lacks, where their short forms are equal."""
    found = []
    for mine, theirs in zip(one.upstreams, other.upstreams, strict=False):
        found += [f"sends {n}: {v}" for n, v in mine.headers if (n, v) not in theirs.headers and v is not None]
        if mine.host != theirs.host:
            found.append(f"sends host: {mine.host}")
    for name in ("response_edits", "cors_edits", "headers", "body", "compression", "others"):
        if getattr(one, name) != getattr(other, name):
            found.append(f"{name.replace('_', ' ')} {_shown(getattr(one, name))}")
    return ", ".join(dict.fromkeys(found)) or "without that"


def _fields(before: Plan, after: Plan) -> Iterator[FieldChange]:
    for kind in ("listeners", "routes", "pools"):
        ours = {x.name: x for x in getattr(before, kind)}
        theirs = {x.name: x for x in getattr(after, kind)}
        for name in dict.fromkeys((*ours, *theirs)):
            place = f"{kind}.{name}"
            if name not in theirs or name not in ours:
                gone = name not in theirs
                what = {"listeners": "port that clients connect to", "routes": "route", "pools": "pool"}[kind]
                before_, after_ = ("there", "") if gone else ("", "there")
                yield FieldChange(place, before_, after_, f"a {what} {'less' if gone else 'more'}")
            else:
                yield from _walk(place, "", ours[name], theirs[name])


def _walk(place: str, path: str, one: object, other: object) -> Iterator[FieldChange]:
    if one == other:
        return
    inside = isinstance(one, Forward) or not path or path.rpartition(".")[2] in _WALKED
    if inside and isinstance(one, Struct) and type(one) is type(other):
        for name in one.__struct_fields__:
            if name in _SHOWN or name.startswith("_"):
                continue
            if name != "action" or isinstance(getattr(one, name), Forward):
                inner = path if name == "action" else f"{path}.{name}".lstrip(".")
                yield from _walk(place, inner, getattr(one, name), getattr(other, name))
        return
    if path:
        before, after = _shown(one), _shown(other)
        changed = after if after != before else f"{after}, changed"  # such as the password of a user
        yield FieldChange(f"{place}.{path}", before, changed, _meaning(path))


def _meaning(path: str) -> str:
    while path:
        if path in MEANING:
            return MEANING[path]
        path = path.rpartition(".")[0]
    return ""


def _shown(value: object) -> str:
    """A value of the plan for people, without what is at its default; times as in the plan, in milliseconds."""
    if isinstance(value, Auth):
        return value.describe()  # which has no hashes
    if isinstance(value, ErrorPage):
        also = "".join((f", as {value.status}" * bool(value.status), ", for endpoints' too" * value.intercept))
        return f"{value.key} ({value.content_type}{also})"
    if isinstance(value, Struct):
        inner = ", ".join(
            f"{each.name}: {_shown(getattr(value, each.name))}"
            for each in fields(value)
            if each.name not in ("field", "is_ip") and not _unsaid(each.default, getattr(value, each.name))
        )
        return f"{{ {inner} }}" if inner else "nothing"
    if isinstance(value, tuple | frozenset):
        return ", ".join(sorted(map(_shown, value)) if isinstance(value, frozenset) else map(_shown, value)) or "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)


def _unsaid(default: object, value: object) -> bool:
    """Whether a value is absent or the default of its field."""
    return value in (None, (), "") or (value == default and type(value) is type(default))
