"""Error pages: HAProxy's own messages by listener and by backend, and rules that replace what endpoints answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from lbgen.engines.api import Objection, RenderedFile, refused
from lbgen.engines.haproxy.quote import log_format
from lbgen.engines.haproxy.statements import Acl, Statement, Word, acl, is_set, statement
from lbgen.engines.haproxy.values import count_bytes, format_shared
from lbgen.engines.haproxy.view import Contributor, HttpListener, PoolUse
from lbgen.engines.text import Literal
from lbgen.plan.error_pages import ErrorPage, page_for, share_statuses
from lbgen.plan.model import Plan, PoolProtocol
from lbgen.plan.precedence import group

LARGEST = 16_000  # bytes of a page, which must fit into one buffer with its head
_IN_LINE = 200  # bytes of a page in haproxy.cfg; a longer one has a file
_FAILURES = (500, 502, 503, 504)  # where a backend fails
_OWN = (400, 401, 403, 404, 408, 413, 429, *_FAILURES)  # what HAProxy answers by itself, where a class has a page
_MESSAGES = (400, 401, 403, 404, 405, 407, 408, 410, 413, 421, 422, 425, 429, 500, 501, 502, 503, 504)
_CHALLENGE = "txn.challenge"


def deny_with_page(
    on: HttpListener, status: int, acls: Iterable[Acl], keys: Sequence[str], purpose: str
) -> list[Statement]:
    """Refuse requests of the routes with these keys by their own pages, else by the message of the listener."""
    conditions = tuple(acls)
    by_page = group((_own_page(on, key, status), key) for key in keys)
    return [
        on.per_route.restrict(
            refuse(status, page, conditions), some, purpose if len(by_page) == 1 else f"{purpose}.{n}"
        )
        for n, (page, some) in enumerate(by_page.items(), 1)
    ]


def _own_page(on: HttpListener, key: str, status: int) -> ErrorPage | bool | None:
    """The page of a route alone, None where the listener's message will do, False where there must be no page."""
    route = on.plan.route(on.keys[key].route)
    if not on.plan.error_pages(on.listener, route):
        return False if on.listener.error_pages else None
    return page_for(route.error_pages, status)


def challenge(on: HttpListener, key: str, value: str) -> Statement | None:
    """Refuse with the page for a 401 and its challenge; None where the message of the listener will do, or nothing."""
    route = on.plan.route(on.keys[key].route)
    page = page_for(on.plan.error_pages(on.listener, route), 401)
    if page is None:
        return None
    answer = f"http-request return status {page.shown(401)}"
    return statement(answer, *page_content(page), "hdr WWW-Authenticate", Literal(log_format(value)))


def refuse(status: int, page: ErrorPage | bool | None, when: Iterable[Acl] = (), origin: str = "") -> Statement:
    """Refuse with this page; None: with the message of the listener, False: without any."""
    if page is None:
        return statement(f"http-request deny deny_status {status}", when=when, origin=origin)
    if isinstance(page, bool):
        return statement(f"http-request return status {status}", when=when, origin=origin)
    return statement(f"http-request return status {page.shown(status)}", *page_content(page), when=when, origin=origin)


def page_content(page: ErrorPage) -> tuple[str | Word, ...]:
    """The arguments of `http-request return` and `http-error` for the page."""
    if not page.body:
        return ()
    kind: tuple[str | Word, ...] = ("content-type", Literal(page.content_type))
    how = "lf-" * page.is_dynamic
    if _has_file(page):
        return (*kind, f"{how}file", _file_name(page))
    return (*kind, f"{how}string", Literal(_text(page)))


def _text(page: ErrorPage) -> str:
    """What HAProxy reads as the body: with placeholders a log-format text."""
    return page.body if isinstance(page.body, str) else format_shared(page.body)


def _has_file(page: ErrorPage) -> bool:
    """Whether it is long, or several lines name it."""
    return len(_text(page).encode()) > _IN_LINE or (page.first != page.last and page.status is None)


def _file_name(page: ErrorPage, end: str = "") -> str:
    """Pages with the same text have one file."""
    kind = {"text/html": "html", "application/json": "json"}.get(page.content_type.partition(";")[0], "txt")
    digest = hashlib.sha256(f"{page.content_type}\0{page.status}\0{_text(page)}".encode()).hexdigest()[:8]
    return f"errors/{page.key}-{digest}.{end or kind}"


def page_files(plan: Plan) -> list[RenderedFile]:
    """The files that statements name: pages, and whole messages where a page has a status of its own."""
    found: dict[str, RenderedFile] = {}
    for page in plan.every_page():
        if _has_file(page):
            found[_file_name(page)] = _file(_file_name(page), _text(page), page.field)
        if page.status is not None and isinstance(page.body, str):
            head = f"HTTP/1.1 {page.status} Replaced\r\nContent-Type: {page.content_type}\r\n"
            length = len(page.body.encode())
            text = f"{head}Content-Length: {length}\r\n\r\n{page.body}"
            found[_file_name(page, "http")] = _file(_file_name(page, "http"), text, page.field)
    return [found[name] for name in sorted(found)]


def _file(name: str, text: str, origin: str) -> RenderedFile:
    return RenderedFile(name, text, (origin,) * text.count("\n"))


def _messages(pages: Iterable[ErrorPage], among: Sequence[int]) -> Iterator[Statement]:
    """What is sent instead of HAProxy's own messages."""
    for page, statuses in share_statuses(pages, among):
        for status in statuses:
            if status not in _MESSAGES:
                continue
            if page.status is None:
                yield statement(f"http-error status {status}", *page_content(page), origin=page.field)
            else:
                yield statement(f"http-error status {status} errorfile", _file_name(page, "http"), origin=page.field)


def _of_listener(on: HttpListener) -> Iterator[Statement]:
    yield from _messages(on.listener.error_pages, _OWN)


def _of_backend(use: PoolUse) -> Iterator[Statement]:
    """Pages of the backend's routes, which come before those of listeners."""
    if use.pool.protocol is PoolProtocol.GRPC and use.l7 and use.has_pages:
        yield from (statement(f"http-error status {status}") for status in _FAILURES)
    yield from _messages(use.error_pages, _FAILURES)


def failure_pages(pages: Iterable[ErrorPage]) -> tuple[ErrorPage, ...]:
    """Those for failures of a backend."""
    return tuple(page for page, statuses in share_statuses(pages, _FAILURES) if set(statuses) & set(_FAILURES))


def _intercept(on: HttpListener) -> Iterator[Statement]:
    """Replace endpoints' own answers. What `return` sends keeps no field of theirs, and a 401 needs its challenge."""
    wanted = group(
        ((page, statuses), key)
        for key in on.forwards
        for page, statuses in share_statuses(on.plan.error_pages(on.listener, on.plan.route(on.keys[key].route)))
        if page.intercept
    )
    if challenged := [key for (_, statuses), keys in wanted.items() if 401 in statuses for key in keys]:
        save = statement(f"http-response set-var({_CHALLENGE}) res.hdr(www-authenticate)", when=[acl("status 401")])
        yield on.per_response.restrict(save, list(dict.fromkeys(challenged)), "challenge")
    for number, ((page, statuses), keys) in enumerate(wanted.items(), 1):
        alike = [statuses] if page.status is not None else [(status,) for status in statuses]
        for some in alike:
            answer = f"http-response return status {page.shown(some[0])}"
            is_it = acl(f"status {' '.join(map(str, some))}")
            each = statement(answer, *page_content(page), when=[is_it])
            yield on.per_response.restrict(each, keys, f"pages.{number}")
    if challenged:
        directive = f"http-after-response set-header WWW-Authenticate %[var({_CHALLENGE})]"
        yield statement(directive, when=[is_set(_CHALLENGE)])


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    every = [(page, "listener.error_pages") for listener in plan.listeners for page in listener.error_pages]
    every += [(page, "route.error_pages") for route in plan.routes for page in route.error_pages]
    for page, feature in dict.fromkeys(every):
        if page.is_dynamic and page.status is not None and any(map(page.covers, _MESSAGES)):
            why = "HAProxy sends a message with another status as it stands: drop status, or the placeholders"
            yield Objection(refused(why), page.field, feature)
        if count_bytes(page.body) > LARGEST:
            why = f"a page of HAProxy holds at most {LARGEST} bytes, as it must fit into one buffer; shorten it"
            yield Objection(refused(why), page.field, feature)


ERROR_PAGES = Contributor(filters=_of_listener, backend=_of_backend, edits=_intercept, objections=_objections)
