"""Error pages: error_page directives that lead to named locations, which answer with the text of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.engines.nginx.statements import Answer, Header, Line, Location
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.upstream_protocols import PROXY
from lbgen.engines.nginx.values import write_body
from lbgen.engines.nginx.view import Contributor, HttpListener
from lbgen.engines.text import Atom, Literal
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.error_pages import ErrorPage, intercepts, page_for, share_statuses
from lbgen.plan.model import Forward, Listener, Mode, Plan, Route

if TYPE_CHECKING:
    Headers = Callable[[ErrorPage], tuple[tuple[Header, ...], str | None]]

# What nginx answers by itself, where a class of statuses has a page.
_OWN = (400, 401, 403, 404, 405, 413, 414, 421, 429, 431, 500, 502, 503, 504)
_NOT_SHOWN = 499  # error_page refuses it


class Pages:
    """The named locations of one server block, one for each page with the same headers."""

    def __init__(self, at: HttpListener) -> None:
        self.locations: list[Location] = []
        self._at = at
        self._names: dict[tuple[ErrorPage, Answer], Atom] = {}

    def lines(
        self, pages: Iterable[ErrorPage], headers: Headers, *, module: str = "", without: int = 0
    ) -> tuple[Line, ...]:
        """The directives for these pages. `headers` are the fields and the type of a page; `module`: of a location that
        forwards by it, whose endpoints' answers are replaced if a page asks for that;
        `without`: a status that another error_page of the location is for."""
        pages = tuple(pages)
        own = [status for status in _OWN if status != without]
        if not module or not intercepts(pages):
            return tuple(
                self._line(page, statuses, headers) for page, statuses in _left(share_statuses(pages, own), without)
            )
        # nginx replaces each status that has a page: here those that intercept, the others are for other locations.
        shared = [(page, statuses) for page, statuses in _left(share_statuses(pages), without) if page.intercept]
        found = tuple(self._line(page, statuses, headers) for page, statuses in shared)
        word = "proxy" if module == PROXY else "grpc"
        return (directive(f"{word}_intercept_errors", "on"), *found)

    def _line(self, page: ErrorPage, statuses: Iterable[int], headers: Headers) -> Line:
        changed = () if page.status is None else (f"={page.status}",)
        words = [str(status) for status in statuses if status != _NOT_SHOWN]
        return directive("error_page", *words, *changed, self._location(page, headers))

    def _location(self, page: ErrorPage, headers: Headers) -> Atom:
        add, content_type = headers(page)
        media = None if content_type == "text/plain" else Literal(content_type or "", "word")
        answer = Answer(200, write_body(self._at, page.body), media, add)  # the status stays that of the error
        if (page, answer) not in self._names:
            count = sum(known.key == page.key for known, _ in self._names)
            name = Atom(f"@page/{page.key}-{count + 1}" if count else f"@page/{page.key}")
            self._names[page, answer] = name
            self.locations.append(Location(Atom(page.field), name=name, answer=answer))
        return self._names[page, answer]


def _left(
    shared: Iterable[tuple[ErrorPage, tuple[int, ...]]], without: int
) -> Iterator[tuple[ErrorPage, tuple[int, ...]]]:
    for page, statuses in shared:
        if left := tuple(status for status in statuses if status != without):
            yield page, left


NO_PAGES = (directive("error_page", "599", "@none"),)
"""Instead of the directives of the server block."""


def _made(route: Route) -> Iterator[int]:
    """What nginx may answer where the route forwards."""
    yield from (502, 504)
    if route.auth is not None and not isinstance(route.auth, ForwardAuth):
        yield 401
    if route.access is not None:
        yield 403
    if route.max_body is not None:
        yield 413
    if route.rate_limit is not None or route.concurrency is not None:
        yield 429


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.mode is Mode.L7:
            yield from _of_listener(plan, listener)


def _of_listener(plan: Plan, listener: Listener) -> Iterator[Objection]:
    for name in dict.fromkeys(rule.route for table in listener.hosts for rule in table.rules):
        route = plan.route(name)
        pages = plan.error_pages(listener, route)
        if not pages or not isinstance(route.action, Forward) or not intercepts(pages):
            continue
        for status in _made(route):
            page = page_for(pages, status)
            if page is not None and not page.intercept:
                why = (
                    f"nginx would also replace endpoints' answers of {status}, as another page of route {route.name} "
                    "has `intercept: true`; write that here too, or nowhere"
                )
                yield Objection(refused(why), page.field, "route.error_pages")
        for page in pages:
            if page.intercept and page.first == page.last == _NOT_SHOWN:
                yield Objection(refused("nginx has no error_page for 499"), page.field, "route.error_pages")


ERROR_PAGES = Contributor(objections=_objections)
