"""The oracle: what the contract requires for a request, computed without an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Generic, TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from lbgen.plan.addresses import is_within
from lbgen.plan.admission import (
    Refusal,
    client_address,
    listener_refusal,
    route_refusals,
    shared_limit_statuses,
    target_refusal,
)
from lbgen.plan.auth import Auth, ForwardAuth
from lbgen.plan.authentication import Authentication, authenticate
from lbgen.plan.cors import CORS_HEADERS, allowed_origin, is_preflight, preflight_headers, response_edits, vary_header
from lbgen.plan.error_pages import ErrorPage, page_for
from lbgen.plan.facts import Facts
from lbgen.plan.forwarding import (
    FORWARDED_FOR,
    PROXY_FIELDS,
    REQUEST_ID,
    apply_edits,
    client_fields,
    evaluate_edits,
    forwarded_headers,
    is_trusted,
    redirect_location,
    redirect_value,
    rewrite_target,
    sticky_cookies,
    sticky_target,
)
from lbgen.plan.matching import covers_host, mismatch
from lbgen.plan.model import Forward, HeaderEdits, L4Rule, Listener, Mode, Plan, Redirect, Respond, Route, Rule
from lbgen.plan.path_conditions import EVERY_PATH, Path
from lbgen.plan.policy import Compression
from lbgen.plan.request import Headers, ParsedRequest, RefusedError, Request, parse_request
from lbgen.plan.rule_index import l4_index, rule_index
from lbgen.plan.values import Value

_R = TypeVar("_R", Rule, L4Rule)


class Upstream(Struct, frozen=True):
    """What reaches an endpoint of `pool` (a `weight` share of the traffic). `headers` are all that arrive, names in
    lower case, values as latin-1 text, Host first; a value of None means present, made by the proxy (X-Request-Id).
    Framing is left out (Connection, Content-Length, Transfer-Encoding), and X-Forwarded-Host of a request without
    Host. Lines of one name may arrive as one list. What `free` headers (lower-case names) say is up to the service that
    was asked; none comes from the client. Those of `patterns` are known by a regular expression only."""

    pool: str
    weight: int
    method: str
    target: str
    host: str | None  # None: the request had none (HTTP/1.0); what the engine then sends is not promised
    headers: tuple[tuple[str, str | None], ...]
    endpoint: str | None = None  # the only one (address:port) that it may be, by a sticky cookie
    patterns: tuple[tuple[str, str], ...] = ()
    free: tuple[str, ...] = ()
    set_cookies: tuple[str, ...] = ()  # the Set-Cookie that the client gets, for each endpoint of the pool; () = none


class LosingRule(Struct, frozen=True):
    """A rule that was tried before the winner, or after it, and why it did not serve the request."""

    rule: str
    route: str
    reason: str


class Contest(Struct, Generic[_R], frozen=True):
    """All `rules` of a listener in the order of trial, the `winner` among them, and why a rule does not hold (None: it
    does). Any two are equal: outcomes are compared by what happens."""

    rules: Sequence[_R] = ()
    winner: _R | None = None
    mismatch: Callable[[_R], str | None] = lambda rule: None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Contest)

    def __hash__(self) -> int:
        return hash(Contest)

    @property
    def losers(self) -> tuple[LosingRule, ...]:
        """Every other rule and why it does not serve, computed by a comparison with each rule."""
        second = f"holds too, but {self.winner and self.winner.id} is tried first"
        return tuple(
            LosingRule(rule.id, rule.route, self.mismatch(rule) or second)
            for rule in self.rules
            if rule is not self.winner
        )


class Outcome(Struct, frozen=True):
    """`status` is set when the proxy answers by itself, else None and `upstreams` say what the endpoint gets.
    `body` of a proxy-made answer is latin-1 text, None = not promised. `response_edits` apply to what the client sees
    in both cases, after `cors_edits`; `headers` (lower-case names) are a proxy-made answer's before them. `compression`
    is of an endpoint's answer. `others` are statuses of which each may come instead, with its reason phrase: the
    request breaks several rules, or is counted with others (429). What `free` headers (lower-case names) say is not
    promised, or known by the regular expressions of `patterns` only. `error_pages` are those in place of its answers,
    or of an endpoint's, with bodies of latin-1 text and placeholders where a fact is not known,
    and `causes` the statuses of an answer that the engine makes before a page replaces them.
    `asked`: the pool of the service that has to admit the request ("" = none); what it says instead is the answer, or a
    refusal, and a 401 of it leads to `login`, whose literal parts are latin-1."""

    route: str | None
    rule: str | None
    status: int | None
    reason: str  # one sentence: why
    body: str | None = None
    location: str | None = None
    headers: Headers = ()
    upstreams: tuple[Upstream, ...] = ()
    response_edits: HeaderEdits = HeaderEdits()
    cors_edits: HeaderEdits = HeaderEdits()
    compression: Compression | None = None
    others: tuple[int, ...] = ()
    free: tuple[str, ...] = ()
    patterns: tuple[tuple[str, str], ...] = ()
    error_pages: tuple[ErrorPage, ...] = ()
    causes: tuple[int, ...] = ()
    made: bool = False  # an answer of the engine's own that no field of a route describes
    auth: Auth | None = None  # what the route asks of the request
    asked: str = ""
    login: Value | None = None
    well_formed: bool = True  # False: refused in the engine's own way, or served in a form on which the rules hold
    contest: Contest[Rule] = Contest()

    def __repr__(self) -> str:
        pools = ", ".join(each.pool for each in self.upstreams)
        what = f"to {pools}" if self.status is None else f"answers {self.status}"
        return f"<Outcome {what} by {f'route {self.route}' if self.route else 'no route'}: {self.reason}>"

    @property
    def losers(self) -> tuple[LosingRule, ...]:
        """The rules that do not serve the request, and why; each call takes time in proportion to the rules.
        Empty where the request is refused before any rule is tried."""
        return self.contest.losers


class L4Outcome(Struct, frozen=True):
    """`pools` are (pool, weight); empty when the connection is closed: no rule takes it (`route` None), or an access
    list keeps its client out."""

    route: str | None
    rule: str | None
    pools: tuple[tuple[str, int], ...]
    reason: str
    contest: Contest[L4Rule] = Contest()

    @property
    def losers(self) -> tuple[LosingRule, ...]:
        """As `Outcome.losers`."""
        return self.contest.losers


def simulate(plan: Plan, request: Request) -> Outcome:
    """What `plan` does with `request`: route, rule, status or what reaches the endpoint, what the client sees.

    Raises KeyError when `request.listener` names no L7 listener.
    """
    listener = _listener(plan, request.listener)
    try:
        parsed = parse_request(request, listener.paths)
    except RefusedError as refused:
        outcome = replace(_made(refused.status, refused.reason, request.method), well_formed=False)
        over = target_refusal(listener, request)
        return outcome if over is None else replace(outcome, others=over.statuses)
    stated = parsed.lines(listener.client_header or FORWARDED_FOR)
    client = client_address(listener, request.client, stated)
    parsed = replace(parsed, client=client)
    refusal = listener_refusal(listener, request, parsed)
    if not listener.underscores:
        parsed = replace(parsed, headers=tuple(line for line in parsed.headers if "_" not in line[0]))
    if not is_trusted(listener, request.client):
        unseen = PROXY_FIELDS | client_fields(listener)
        parsed = replace(parsed, headers=tuple(line for line in parsed.headers if line[0] not in unseen))
    identities = plan.identity_headers(listener)
    parsed = replace(parsed, headers=tuple(line for line in parsed.headers if line[0] not in identities))
    of_request = partial(_facts, "", EVERY_PATH, parsed, listener, request.client, answered=True)
    if refusal is not None:
        return _with_pages(_refused([refusal], request.method), plan.error_pages(listener), of_request)
    index = rule_index(listener)
    winner = next((rule for rule in index.candidates(parsed) if mismatch(rule, parsed) is None), None)
    contest = Contest(index.rules, winner, partial(mismatch, request=parsed))
    if winner is None:
        missing = _made(404, "no rule takes it", request.method)
        return replace(_with_pages(missing, plan.error_pages(listener), of_request), contest=contest)
    route = plan.route(winner.route)
    asks_cors = route.cors is not None and is_preflight(parsed)
    refusals = list(route_refusals(route, request, parsed, preflight=asks_cors))
    auth = Authentication() if route.auth is None or asks_cors else authenticate(route.auth, parsed)
    if auth.refusal is not None:
        refusals.append(auth.refusal)
    cors, compression = HeaderEdits(), None
    free: tuple[str, ...] = ()
    patterns: tuple[tuple[str, str], ...] = ()
    others: tuple[int, ...] = ()
    if refusals:
        outcome = _refused(refusals, request.method)
        if auth.challenge:
            outcome = replace(outcome, headers=(*outcome.headers, ("www-authenticate", auth.challenge)))
    elif route.cors is not None and asks_cors:
        allowed = preflight_headers(route.cors, parsed)
        headers = (*allowed, *vary_header(route.cors))
        if not allowed:  # a browser finds what it asked for missing, whatever else is there
            open_to = allowed_origin(route.cors, parsed) is not None
            free = (*(name for name in CORS_HEADERS if open_to or name != "access-control-allow-origin"), "vary")
        outcome = Outcome(None, None, 204, f"rule {winner.id} takes it: a CORS preflight", "", headers=headers)
    else:
        outcome = _act(plan, route, winner, parsed, listener, request.client, auth.identity)
        free, patterns = outcome.free, outcome.patterns
        compression = route.compression
        if isinstance(route.auth, ForwardAuth):
            reason = f"{outcome.reason}, once pool {route.auth.pool} admits it"
            to = route.auth.redirect_to
            login = None if to is None else of_request().fill(to)
            outcome = replace(outcome, asked=route.auth.pool, reason=reason, login=login)
    if not asks_cors:
        others = (*auth.unsure, *shared_limit_statuses(route))
    if route.cors is not None and not asks_cors:
        cors = response_edits(route.cors, parsed)
    elif asks_cors and refusals:  # a preflight that is refused fails, whatever its headers
        free = (*CORS_HEADERS, "vary")
    answered = not outcome.upstreams
    of_route = _facts(route.name, winner.match.path, parsed, listener, request.client, answered=answered)
    edits, unknown = evaluate_edits(route.response_headers, of_route)
    outcome = replace(outcome, others=(*outcome.others, *others))
    return replace(
        _with_pages(outcome, plan.error_pages(listener, route), of_request),
        route=route.name,
        rule=winner.id,
        auth=None if asks_cors else route.auth,
        response_edits=edits,
        cors_edits=cors,
        compression=compression,
        free=(*free, *unknown),
        patterns=(*patterns, *unknown.items()),
        contest=contest,
    )


def simulate_l4(plan: Plan, listener: str, sni: str | None = None, source: str = "127.0.0.1") -> L4Outcome:
    """What `plan` does with a connection (or datagram) from `source`; `sni` None = no TLS or no server name.

    Raises KeyError when `listener` names no listener.
    """
    name = None if sni is None else sni.lower().removesuffix(".")
    access = plan.listener(listener).access
    if access is not None and not access.admits(source):
        return L4Outcome(None, None, (), f"the listener's access does not admit {source}: the connection is closed")
    why = partial(_l4_mismatch, name=name, source=source)
    index = l4_index(plan.listener(listener))
    winner = next((rule for rule in index.candidates(name, source) if why(rule) is None), None)
    contest = Contest(index.rules, winner, why)
    if winner is None:
        return L4Outcome(None, None, (), "no rule takes it: the connection is closed", contest)
    access = plan.route(winner.route).access
    if access is not None and not access.admits(source):
        reason = f"rule {winner.id} takes it, and the route's access does not admit {source}: the connection is closed"
        return L4Outcome(winner.route, winner.id, (), reason, contest)
    action = plan.route(winner.route).action
    targets = action.targets if isinstance(action, Forward) else ()
    pools = tuple((target.pool, target.weight) for target in targets if target.weight)
    return L4Outcome(winner.route, winner.id, pools, f"rule {winner.id} takes it", contest)


def _l4_mismatch(rule: L4Rule, name: str | None, source: str) -> str | None:
    if not covers_host(rule.sni, name):
        return f"server name {name or '(none)'} is not {rule.sni}"
    if rule.sources and not is_within(source, rule.sources):
        return f"source {source} is not in {', '.join(rule.sources)}"
    return None


def _listener(plan: Plan, name: str) -> Listener:
    for listener in plan.listeners:
        if listener.mode is Mode.L7 and name in ("", listener.name):
            return listener
    raise KeyError(name)


def _made(status: int, reason: str, method: str) -> Outcome:
    """A response of the proxy itself."""
    body = "" if method == "HEAD" else f"{reason_phrase(status)}\n"
    return Outcome(None, None, status, reason, body, headers=(("content-type", "text/plain"),), made=True)


def _refused(refusals: list[Refusal], method: str) -> Outcome:
    """A response of the proxy for one of several refusals."""
    first, *others = (status for refusal in refusals for status in refusal.statuses)
    reason = "; ".join(refusal.reason for refusal in refusals)
    return replace(_made(first, reason, method), others=tuple(others))


def _with_pages(outcome: Outcome, written: tuple[ErrorPage, ...], of_request: Callable[[], Facts]) -> Outcome:
    """The outcome with pages in place of what the engine answers by itself."""
    if not written:
        return outcome
    facts = of_request()
    pages = tuple(replace(page, body=facts.fill(page.body)) for page in written)
    others = tuple(_shown(pages, status) for status in outcome.others)
    found = replace(outcome, error_pages=pages, causes=outcome.others, others=others)
    status = outcome.status if outcome.made else None
    if status is None:
        return found
    found = replace(found, causes=(status, *found.causes))
    if (page := page_for(pages, status)) is None:
        return found
    body = "" if facts.parsed.method == "HEAD" else None if page.is_dynamic else page.body
    kept = (line for line in outcome.headers if line[0] == "www-authenticate")
    headers = (("content-type", page.content_type), *kept)
    return replace(found, status=page.shown(status), body=body, headers=headers)


def _shown(pages: tuple[ErrorPage, ...], status: int) -> int:
    page = page_for(pages, status)
    return status if page is None else page.shown(status)


def _act(
    plan: Plan,
    route: Route,
    rule: Rule,
    parsed: ParsedRequest,
    listener: Listener,
    client: str,
    identity: Iterable[tuple[str, str | None]],
) -> Outcome:
    reason = f"rule {rule.id} takes it"
    action = route.action
    answered = not isinstance(action, Forward)
    facts = _facts(route.name, rule.match.path, parsed, listener, client, answered=answered)
    match action:
        case Redirect():
            value = redirect_value(action, route.name, listener)
            where = redirect_location(parsed, rule.match.path, action, listener)
            if value is not None and (made := facts.evaluate(value)) is None:
                shown = (("location", facts.pattern(value)),)
                return Outcome(None, None, action.status, reason, free=("location",), patterns=shown)
            where = where if value is None else made or ""
            return Outcome(None, None, action.status, reason, location=where, headers=(("location", where),))
        case Respond():
            bodiless = parsed.method == "HEAD" or action.status in (204, 304)
            body = "" if bodiless else facts.evaluate(action.body)
            own, unknown = evaluate_edits(HeaderEdits(action.headers), facts)
            headers = tuple((name, value) for name, value in own.set if isinstance(value, str))
            return Outcome(
                None,
                None,
                action.status,
                reason,
                body,
                headers=headers,
                free=tuple(unknown),
                patterns=tuple(unknown.items()),
            )
        case Forward():
            lines = [*forwarded_headers(parsed, listener, client), *identity]
            target = rewrite_target(parsed, rule.match.path, action.rewrite)
            host = parsed.authority
            if action.rewrite is not None and action.rewrite.host is not None:
                host = action.rewrite.host
                lines = [("host", host), *(line for line in lines if line[0] != "host")]
            edits, unknown = evaluate_edits(route.request_headers, facts)
            shares = {to: evaluate_edits(to.request_headers, facts) for to in action.targets}
            kept = sticky_target(plan, action, parsed)
            upstreams = tuple(
                Upstream(
                    to.pool,
                    max(1, to.weight),
                    parsed.method,
                    target,
                    host,
                    tuple(apply_edits(lines, edits, shares[to][0])),
                    None if kept is None else kept[1].authority,
                    tuple((unknown | shares[to][1]).items()),
                    route.auth.identity_headers if isinstance(route.auth, ForwardAuth) else (),
                    () if kept is not None else sticky_cookies(plan.pool(to.pool)),
                )
                for to in ([to for to in action.targets if to.weight] if kept is None else [kept[0]])
            )
            return Outcome(None, None, None, reason, upstreams=upstreams)
        case _:
            assert_never(action)


def _facts(route: str, path: Path, parsed: ParsedRequest, listener: Listener, peer: str, *, answered: bool) -> Facts:
    """What placeholders stand for on a route, "" = on none."""
    sent = next((value for name, value in forwarded_headers(parsed, listener, peer) if name == REQUEST_ID), None)
    return Facts(parsed, listener, route, path, sent, answered)


# Renamed by RFC 9110; Python took the new words in 3.13.
_RENAMED = {
    413: "Content Too Large",
    414: "URI Too Long",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
}


def reason_phrase(status: int) -> str:
    """The reason phrase; ValueError for a code that has none."""
    return _RENAMED.get(status) or HTTPStatus(status).phrase
