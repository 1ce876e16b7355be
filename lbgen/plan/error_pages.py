"""Error pages: which one replaces an answer, and the content of their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.plan.values import Template, Value, read_value

if TYPE_CHECKING:
    from lbgen.spec import error_pages as written

LARGEST_PAGE = 64 * 1024  # bytes
_TYPES = {".html": "text/html", ".htm": "text/html", ".json": "application/json"}
# Those that IANA registers; what a class covers beside them is an engine's habit.
REGISTERED = (*range(400, 418), *range(421, 427), 428, 429, 431, 451, *range(500, 509), 510, 511)


class ErrorPage(Struct, frozen=True):
    """For answers with a status from `first` to `last`: the engine's own, with `intercept` endpoints' too. `status`
    None = it stays. Placeholders of `body` stand for facts of the request, which no route decides."""

    first: int
    last: int
    body: Value
    content_type: str
    field: str
    status: int | None = None
    intercept: bool = False

    @property
    def is_dynamic(self) -> bool:
        """Whether requests decide its text."""
        return isinstance(self.body, Template)

    def covers(self, status: int) -> bool:
        """Whether it is for answers of that status."""
        return self.first <= status <= self.last

    def shown(self, status: int) -> int:
        """The status that clients see of an answer of `status`."""
        return status if self.status is None else self.status

    @property
    def key(self) -> str:
        """`404` or `5xx`, as in the topology."""
        return str(self.first) if self.first == self.last else f"{self.first // 100}xx"


def read_page(path: Path) -> str:
    """The text of a page's file, with LF at the end of lines.

    Raises OSError when it cannot be read, ValueError when it is too large or no text.
    """
    with path.open("rb") as file:
        raw = file.read(LARGEST_PAGE + 1)
    if len(raw) > LARGEST_PAGE:
        raise ValueError(f"it is larger than {LARGEST_PAGE >> 10} KiB")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if control := next((c for c in text if (c < " " or "\x7f" <= c <= "\x9f") and c not in "\n\t"), None):
        raise ValueError(f"it holds the control character U+{ord(control):04X}")
    return text


def resolve_pages(pages: Mapping[str, written.ErrorPage] | None, base: Path, field: str) -> tuple[ErrorPage, ...]:
    """The pages of one level: those of a status before those of a class. Raises as `read_page` for their files."""
    if pages is None:
        return ()
    found = []
    for key, page in sorted(pages.items(), key=lambda item: (item[0].endswith("xx"), item[0])):
        is_class = key.endswith("xx")
        first = int(key[0]) * 100 if is_class else int(key)
        body = read_page(base / page.file) if page.file is not None else read_value(page.body or "")
        by_name = _TYPES.get(PurePosixPath(page.file or "").suffix.lower(), "text/plain")
        found.append(
            ErrorPage(
                first,
                first + 99 if is_class else first,
                body,
                page.content_type or by_name,
                f"{field}.{key}" if field else key,
                page.status,
                page.intercept,
            )
        )
    return tuple(found)


def page_for(pages: Iterable[ErrorPage], status: int) -> ErrorPage | None:
    """The page for an answer of that status that the engine makes."""
    return next((page for page in pages if page.covers(status)), None)


def intercepting_page(pages: Iterable[ErrorPage], status: int) -> ErrorPage | None:
    """The page in place of an endpoint's own answer of that status."""
    page = page_for(pages, status)
    return page if page is not None and page.intercept else None


def intercepts(pages: Iterable[ErrorPage]) -> bool:
    """Whether some of endpoints' answers are replaced."""
    return any(page.intercept for page, _ in share_statuses(pages))


def share_statuses(
    pages: Iterable[ErrorPage], among: Iterable[int] = REGISTERED
) -> Iterator[tuple[ErrorPage, tuple[int, ...]]]:
    """Each page with the statuses that it is for: of a class those that are `among` these and have no page before."""
    taken: set[int] = set()
    candidates = tuple(among)
    for page in pages:
        every = (page.first,) if page.first == page.last else candidates
        if own := tuple(status for status in every if page.covers(status) and status not in taken):
            taken.update(own)
            yield page, own
