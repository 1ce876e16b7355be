"""Error pages in answers: which one the oracle allows, and what is wrong with what came instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lbgen.conformance.difference import Difference, Kind
from lbgen.plan.error_pages import ErrorPage, intercepting_page, page_for
from lbgen.plan.forwarding import apply_edits
from lbgen.plan.model import Plan
from lbgen.plan.own_statuses import FAILURES, MALFORMED
from lbgen.plan.request import to_wire
from lbgen.plan.simulate import Outcome
from lbgen.plan.values import Template, Value, join_parts, parts_of, text_pattern
from lbgen.runtime.standins.stand_in import Behaviour

if TYPE_CHECKING:
    from lbgen.conformance.case import Case, Expect
    from lbgen.conformance.http1_client import Answer


def own_pages(expect: Expect, outcome: Outcome) -> dict[int, tuple[ErrorPage, ...]]:
    """The pages of an answer of the engine's own, by the status that a client sees; without those for answers that any
    status will do for."""
    causes = sorted(FAILURES) if expect.fault is not None else outcome.causes
    found: dict[int, tuple[ErrorPage, ...]] = {}
    for status in causes:
        if status not in MALFORMED and (page := page_for(outcome.error_pages, status)) is not None:
            found[page.shown(status)] = (*found.get(page.shown(status), ()), page)
    return found


def intercepted(outcome: Outcome, behaviour: Behaviour, expect: Expect) -> tuple[int, ErrorPage] | None:
    """The status and the page that a client gets in place of what its endpoint answers."""
    if outcome.status is not None or expect.fault is not None or behaviour.mode != "fixed":
        return None
    page = intercepting_page(outcome.error_pages, behaviour.status)
    return None if page is None else (page.shown(behaviour.status), page)


def replacing_page(plan: Plan, answer: Answer) -> ErrorPage | None:
    """The page of an answer whose status it has replaced."""
    pages = (page for page in plan.every_page() if page.status is not None and page.status == answer.status)
    return next((page for page in pages if page.body and _is_body(page.body, answer.body)), None)


def _is_body(written: Value, body: bytes) -> bool:
    if not isinstance(written, Template):
        return body == written.encode()
    text = join_parts(to_wire(part) if isinstance(part, str) else part for part in parts_of(written))
    return re.fullmatch(text_pattern(text), body.decode("latin-1"), re.DOTALL) is not None


def replaced_status(page: ErrorPage) -> int:
    """A status that such an answer may have had."""
    return 503 if page.covers(503) else page.first


def shown_pages(case: Case, outcome: Outcome, behaviour: Behaviour) -> Iterator[ErrorPage]:
    """The pages that the answer to a case may show."""
    found = intercepted(outcome, behaviour, case.expect)
    if found is not None:
        yield found[1]
    if case.expect.fault is not None or outcome.made:
        yield from (page for pages in own_pages(case.expect, outcome).values() for page in pages)


def page_differences(method: str, pages: Iterable[ErrorPage], outcome: Outcome, answer: Answer) -> Iterator[Difference]:
    """What is wrong with an answer that has to be one of these pages, with the edits of its route."""
    every = [list(_of_page(method, page, outcome, answer)) for page in pages]
    if all(every):
        yield from every[0]


def _of_page(method: str, page: ErrorPage, outcome: Outcome, answer: Answer) -> Iterator[Difference]:
    body = text_pattern("" if method == "HEAD" else page.body)
    if not re.fullmatch(body, answer.body.decode("latin-1"), re.DOTALL):
        yield Difference(Kind.BODY, repr(answer.body[:200]), repr(body[:200]), why=page.field)
    wanted = apply_edits((("content-type", page.content_type),), outcome.cors_edits, outcome.response_edits)
    for name, value in wanted:
        if name not in outcome.free and value not in (got := ", ".join(answer.lines(name))):
            yield Difference(Kind.HEADER, got or None, value, name, "answer", why=page.field)
