"""Random plans whose rules overlap, and requests near their boundaries.

Everything is drawn from small alphabets, so that hosts cover each other, prefixes nest, regexes meet exact paths and
values are hit by chance. Requests start from a rule of the plan and are then bent a little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from msgspec.structs import replace

from lbgen.plan import model as m
from lbgen.plan.conditions import (
    SUBJECTS,
    AnySubject,
    Condition,
    Cookie,
    Exact,
    Header,
    Not,
    OneOf,
    Operator,
    Query,
    Regex,
    Subject,
    Within,
)
from lbgen.plan.path_conditions import PATHS, Path, PrefixPath
from lbgen.plan.precedence import UnrankedRule
from lbgen.plan.request import Request
from lbgen.spec.match import Match, ValueMatch
from tests.support.plans import endpoint, forward, on_web, pool, route

if TYPE_CHECKING:
    from collections.abc import Callable


HOSTS = (
    *(None, None, None, m.HostPattern("a.test"), m.HostPattern("a.test", wildcard=True)),  # often, so that rules meet
    m.HostPattern("a.test"),
    m.HostPattern("b.a.test"),
    m.HostPattern("c.b.a.test"),
    m.HostPattern("xa.test"),
    m.HostPattern("test"),
    m.HostPattern("test", wildcard=True),
    m.HostPattern("a.test", wildcard=True),
    m.HostPattern("b.a.test", wildcard=True),
)
SEGMENTS = ("a", "b", "ab", "a.b", "A", "a-b", "%C3%A9", "a%20b", "1", "a;v=1")
REGEXES = (
    "/a/.*",
    "/a(/b)?",
    "/[ab]+",
    ".*",
    "/a/b",
    "/a",
    r".*\.b",
    "/a/[^/]+",
    "/(a|b)/.*",
    "/a/?",
    "/[0-9]+",
    "/ab?/b{1,2}",
    "/a.b",
    "/a%20b.*",
    "/b/.+/a",
    "/A/.*|/a/ab",
    "/b.*",
)
VALUE_REGEXES = ("[0-9]+", "a|b", "a.*", ".+", "(x|y)z?")
VALUES = ("1", "2", "a", "ab", "a b", "x", "x,y")
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "PURGE")
HEADERS = ("x-a", "x-b", "accept")
NETWORKS = ("127.0.0.0/29", "127.1.0.0/16", "127.1.2.0/24", "127.0.0.2/32")  # of loopback: a test connects from them
QUERY = ("q", "r", "Q")
COOKIES = ("c", "d", "C")


@st.composite
def paths(draw: st.DrawFn, most: int = 3) -> str:
    """`/`, or up to `most` segments without a trailing slash."""
    return "/" + "/".join(
        draw(st.lists(st.sampled_from(SEGMENTS[: draw(st.sampled_from((1, 2, 2, 3, 10)))]), max_size=most))
    )


@st.composite
def path_matches(draw: st.DrawFn) -> Path:
    """Mostly prefixes."""
    kind = draw(st.sampled_from((*(PrefixPath,) * 3, *PATHS)))
    if not kind.is_text:
        return kind(draw(st.sampled_from(REGEXES)))
    path = draw(paths())
    return kind.of(path + "/" if path != "/" and draw(st.integers(0, 4)) == 0 else path)


# What an operator is drawn from; others have no value of their own.
OPERATORS: dict[type[Operator], st.SearchStrategy[Any]] = {
    Exact: st.sampled_from(VALUES),
    Regex: st.sampled_from(VALUE_REGEXES),
    OneOf: st.lists(st.sampled_from(METHODS), min_size=1, max_size=3, unique=True).map(tuple),
    Within: st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=2, unique=True).map(tuple),
}
NAMES: dict[type[Subject], tuple[str, ...]] = {Header: HEADERS, Query: QUERY, Cookie: COOKIES}


def some_operators(subject: type[AnySubject], kind: type[Operator]) -> st.SearchStrategy[Any]:
    """Operators of one kind; of one that has no values above, with the example of its field or of the subject's."""
    field = ValueMatch.model_fields[kind.word] if kind.word else Match.model_fields[subject.word]
    example = (field.examples or [None])[0]
    values = OPERATORS.get(kind, st.just(tuple(example) if isinstance(example, list) else example))
    return values.map(kind.of)


def some_conditions(subject: type[AnySubject]) -> st.SearchStrategy[tuple[Condition, ...]]:
    """One or two, sorted by name."""
    asked = st.one_of(*(some_operators(subject, each) for each in subject.operators))
    operator = st.one_of(asked, asked, asked, asked.map(Not))
    some = st.dictionaries(st.sampled_from(NAMES.get(subject, ("",))), operator, min_size=1, max_size=2)
    return some.map(lambda of: tuple(Condition(subject(name), of[name]) for name in sorted(of)))


def conditions(subject: type[AnySubject]) -> st.SearchStrategy[tuple[Condition, ...]]:
    """None most of the time, else up to two."""
    return st.one_of(*(st.just(()),) * 5, some_conditions(subject))


MATCHES = st.builds(
    lambda path, *groups: m.Match(path, tuple(each for group in groups for each in group)),
    path_matches(),
    *map(conditions, SUBJECTS),
)

EDITS = st.sampled_from(
    (
        m.HeaderEdits(),
        m.HeaderEdits(set=(("x-env", "prod"),)),
        m.HeaderEdits(add=(("x-tag", "t"),), remove=("x-b",)),
        m.HeaderEdits(set=(("x-a", "new"),), add=(("x-a", "more"),)),
    )
)
REDIRECTS = st.builds(
    m.Redirect,
    status=st.sampled_from((301, 302, 303, 307, 308)),
    scheme=st.sampled_from((None, None, "http", "https")),
    host=st.sampled_from((None, None, "other.test")),
    port=st.sampled_from((None, None, 80, 443, 8443)),
    path=st.sampled_from((None, None, "/new", "/")),
)
RESPONDS = st.builds(
    m.Respond,
    status=st.sampled_from((200, 201, 404, 418, 503)),
    body=st.sampled_from(("", "ok\n", "$host % {{ env }} \"quoted\" 'it' \\ #\n")),
    headers=st.just((("content-type", "text/plain"),)),
)
_TIMES = m.Timeouts(1_000, 10_000, 60_000)
_TARGETS = (
    forward("p0").targets,
    forward("p1").targets,
    (m.Target("p0", 3, m.HeaderEdits(), ""), m.Target("p1", 1, m.HeaderEdits(set=(("x-version", "2"),)), "")),
)


@st.composite
def actions(draw: st.DrawFn, path: Path) -> m.Forward | m.Redirect | m.Respond:
    """Mostly a forward. A prefix rewrite or redirect only where the match is no regex."""
    kind = draw(st.sampled_from(("forward", "forward", "forward", "rewrite", "redirect", "respond")))
    with_prefix = path.is_text and draw(st.booleans())
    prefix = draw(st.sampled_from(("/", "/v1", "/v1/x"))) if with_prefix else None
    if kind == "respond":
        return draw(RESPONDS)
    if kind == "redirect":
        redirect = draw(REDIRECTS)
        return replace(redirect, path=None, prefix=prefix) if with_prefix else redirect
    rewrite = None
    if kind == "rewrite":
        host = draw(st.sampled_from((None, "internal.test")))
        rewrite = m.Rewrite(prefix, None if with_prefix else draw(st.sampled_from(("/w", "/w/x", None))), host)
    return m.Forward(draw(st.sampled_from(_TARGETS)), _TIMES, None if rewrite == m.Rewrite() else rewrite)


@dataclass(frozen=True, slots=True)
class PlanShape:
    """What a test wants of its plans: at most so many rules, with or without actions other than a bare forward."""

    rules: int = 30
    plain: bool = False
    port: int = 8080


@st.composite
def plans(draw: st.DrawFn, shape: PlanShape = PlanShape()) -> m.Plan:
    """One L7 listener `web` and pools p0, p1 (ports 9000, 9001). Routes have up to three rules, no two are twins,
    some may be unreachable. Every route's answer names it: a forward sets x-route, others carry it as a header."""
    entries: list[UnrankedRule] = []
    routes: list[m.Route] = []
    twins = set()
    while len(entries) < shape.rules and (not routes or draw(st.integers(0, shape.rules)) > 0):
        index = len(routes)
        name = f"r{index}"
        priority = draw(st.sampled_from((0, 0, 0, 0, 0, 0, -1, 1, 5)))
        pairs = st.tuples(st.sampled_from(HOSTS), MATCHES)
        ways = [w for w in draw(st.lists(pairs, min_size=1, max_size=3, unique=True)) if (*w, priority) not in twins]
        if not ways:
            break
        kinds = [match.path for _, match in ways]
        strictest = next((p for p in kinds if not p.is_text), kinds[0])
        twins.update((*w, priority) for w in ways)
        for at, (host, match) in enumerate(ways[: shape.rules - len(entries)]):
            entries.append(UnrankedRule(f"{name}.{at}", name, priority, host, match, f"routes[{index}]"))
        action = m.Forward(_TARGETS[0], _TIMES) if shape.plain else draw(actions(strictest))
        edits = m.HeaderEdits() if shape.plain else draw(EDITS)
        asked = replace(edits, set=(*edits.set, ("x-route", name)))
        shown = m.HeaderEdits(set=(("x-route", name),))
        routes.append(route(name, action, index, request_headers=asked, response_headers=shown))
    trusted = draw(st.sampled_from(((), (), ("127.0.0.1/32",))))
    return on_web(
        entries,
        routes,
        [pool(f"p{n}", endpoint("127.0.0.1", 9000 + n)) for n in range(2)],
        shape.port,
        trusted_proxies=trusted,
        forwarded_headers=draw(st.sampled_from((True, True, False))),
        real_ip=draw(st.booleans()),
        forwarded=draw(st.booleans()),
        client_header=draw(st.sampled_from((None, "cf-connecting-ip", "x-real-ip"))) if trusted else None,
        request_id=draw(st.sampled_from((True, True, False))),
        underscores=draw(st.sampled_from((False, False, False, True))),
    )


def rules_of(plan: m.Plan) -> list[m.Rule]:
    """Every reachable rule of the plan's L7 listeners, in order of rank."""
    found = {rule.rank: rule for x in plan.listeners for table in x.hosts for rule in table.rules}
    return [found[rank] for rank in sorted(found)]


def _values(draw: st.DrawFn, wanted: Operator) -> tuple[str, ...]:
    """Values, or none, for which the operator holds."""
    lists = [(each,) for each in ("1", "a", "ab", "x", "xz", "22", "")] + [()]
    held = [values for values in lists if wanted.holds(values)]
    held += [() if each is None else (each,) for each in wanted.examples()]
    return draw(st.sampled_from(held))


_REGEX_PATHS = (
    "/a/b",
    "/a",
    "/b",
    "/ab",
    "/a/ab",
    "/a/",
    "/12",
    "/b/a/a",
    "/a.b",
    "/a/a.b",
    "/a%20b",
    "/ab/bb",
    "/A/b",
    "/b/b",
)


def _path(draw: st.DrawFn, wanted: Path) -> str:
    if not wanted.is_text:
        return draw(st.sampled_from([path for path in _REGEX_PATHS if wanted.matches(path)]))
    if isinstance(wanted, PrefixPath) and draw(st.booleans()):
        return (wanted.value + draw(paths(2))).replace("//", "/")
    return wanted.value


def _bend_path(draw: st.DrawFn, path: str) -> str:
    bends: tuple[Callable[[str], str], ...] = (
        lambda p: p,
        lambda p: p.rstrip("/") + "/",
        lambda p: p.rstrip("/") + "/a",
        lambda p: p.rstrip("/") + "/b/a",
        lambda p: p.rstrip("/") + "/a.b",
        lambda p: p + "b",
        lambda p: p + ".b",
        lambda p: p[:-1] or "/",
        lambda p: p.rpartition("/")[0] or "/",
        lambda p: p.swapcase(),
        lambda p: p.replace("%C3%A9", "%c3%A9"),
        lambda p: p.replace(".", "x"),
    )
    return draw(st.sampled_from(bends))(path)


# Small and zero are what hypothesis tries most, so a rare thing is neither.
ONE_IN_20 = st.integers(0, 19).map(lambda n: n == 13)
ODD_TARGETS = (
    "/a/../b",
    "/./a",
    "//a",
    "/a//b",
    "/a%2Fb",
    "/%61",
    "/a%",
    "/a%zz",
    "/a\\b",
    "/a|b",
    "/%2e%2e/a",
    "/a#b",
)


ODD_HOSTS = ("{}:80:80", "{}:99x", "{}:65536", "{}..", ".{}", ":80", "[::1", "[::1]x", "..", "[zz]")
# The endpoint answers so: what its Connection names ends at the proxy.
ENDED = (
    (
        "X-Stand-In",
        '{"mode": "fixed", "body": "b", "headers": [["Connection", "x-ended"], ["X-Ended", "1"], ["X-Kept", "2"]]}',
    ),
)


@st.composite
def requests(draw: st.DrawFn, plan: m.Plan, odd: bool = True) -> Request:
    """A request that one rule of `plan` takes or nearly takes; with `odd`, now and then one that is refused."""
    rules = rules_of(plan)
    host, path, method = "a.test", "/a", "GET"
    client = Request().client
    headers: list[tuple[str, str]] = []
    query: list[str] = []
    cookies: list[str] = []
    if rules:
        rule = draw(st.sampled_from(rules))
        match = rule.match
        if rule.host is not None:
            host = (
                f"{draw(st.sampled_from(('b', 'c.b', 'x')))}.{rule.host.name}" if rule.host.wildcard else rule.host.name
            )
        path = _path(draw, match.path)
        method = draw(st.sampled_from(match.methods)) if match.methods else "GET"
        # The conditions of a second rule as well, so that several rules hold and their order decides.
        both = (match, draw(st.sampled_from(rules)).match) if draw(st.booleans()) else (match,)
        for each in (condition for match in both for condition in match.conditions):
            if each.subject.is_client:
                own = [one for one in each.operator.examples() if one is not None and one.startswith("127.")]
                client = draw(st.sampled_from(own or [client]))
                continue
            name, values = each.subject.name, _values(draw, each.operator)
            if isinstance(each.subject, Header):
                headers += [(name, value) for value in values]
            elif isinstance(each.subject, Query):
                query += [f"{name}={value.replace(' ', '%20')}" for value in values]
            elif isinstance(each.subject, Cookie):
                cookies += [f"{name}={value.replace(' ', '').replace(',', '')}" for value in values]
    if draw(st.sampled_from((False, False, True))):
        path = _bend_path(draw, path)
    for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
        bend = draw(st.sampled_from(("host", "method", "header", "query", "cookie", "drop")))
        if bend == "host":
            host = draw(
                st.sampled_from((*(h.name for h in HOSTS if h), "x.test", "d.c.b.a.test", "nowhere", "10.0.0.1"))
            )
        elif bend == "method":
            method = draw(st.sampled_from(METHODS))
        elif bend == "header":
            headers.insert(0, (draw(st.sampled_from(HEADERS)), draw(st.sampled_from((*VALUES, "", "1, 2", "b ,a")))))
        elif bend == "query":
            pair = draw(
                st.sampled_from(("q=", "q", "q=2", "r=a+b", "q=a%20b", "Q=1", "q=%31", "=1", "", "r=1=2", "q=%zz"))
            )
            query.insert(draw(st.integers(0, len(query))), pair)
        elif bend == "cookie":
            cookies.insert(0, draw(st.sampled_from(("c=2", 'c="a"', "c=", "C=1", "d=x", "e=1", "c"))))
        else:
            (headers or query or cookies or [None]).pop()  # type: ignore[list-item,union-attr]
    host = draw(
        st.sampled_from((host, host, host, host.upper(), f"{host}:8080", f"{host}.", f"{host.capitalize()}.:80"))
    )
    if cookies:
        if len(cookies) > 1 and draw(st.booleans()):
            headers += [("cookie", cookies[0]), ("cookie", "; ".join(cookies[1:]))]
        else:
            headers.append(("Cookie", "; ".join(cookies)))
    headers += draw(
        st.sampled_from(
            (
                *((), (), (), (("X-Forwarded-For", "192.0.2.1"),), (("X-A", "a"), ("x-a", "1"))),
                *((("X-Request-Id", "mine"),), (("X_A", "a"), ("x_b", "1")), ENDED),
            )
        )
    )
    if odd and draw(ONE_IN_20):
        host = draw(st.sampled_from(ODD_HOSTS)).format(host)
    target = path + ("?" + "&".join(query) if query or draw(ONE_IN_20) else "")
    if odd and draw(ONE_IN_20):
        target = draw(st.sampled_from(ODD_TARGETS))
    elif odd and draw(ONE_IN_20):
        target = f"http://{host}{target}"
    return Request(method, target, (("Host", host), *headers), client=client)
