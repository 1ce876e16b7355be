"""The texts of a topology in which placeholders may stand, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from lbgen.spec.error_pages import ErrorPages
from lbgen.spec.model import TopologyModel
from lbgen.spec.placeholders import Mention, split_text
from lbgen.spec.route import HeaderEdits, Route

Place = Enum("Place", "REQUEST RESPONSE BODY REDIRECT PAGE LOGIN")
SHARED = (Place.PAGE, Place.LOGIN)
"""Where routes share a text, so that its facts are those of the request alone."""


class WrittenText(Struct, frozen=True):
    """`route` is the number of its route, None for a text of the whole topology; `media` the type of a body."""

    field: str
    text: str
    place: Place
    route: int | None = None
    media: str = ""

    @property
    def mentions(self) -> list[Mention]:
        """Its placeholders."""
        if "{" not in self.text:
            return []
        return [part for part in split_text(self.text) if isinstance(part, Mention)]


def written_texts(model: TopologyModel) -> Iterator[WrittenText]:
    """All of them, in the order of the models."""
    yield from _shared(model, "", None)
    for name, listener in model.listeners.items():
        if listener.error_pages is not None:
            yield from _pages(f"listeners.{name}.error_pages", listener.error_pages, None)
    for index, route in enumerate(model.routes):
        field = f"routes[{index}]"
        if route.request_headers is not None:
            yield from _edits(f"{field}.request_headers", route.request_headers, Place.REQUEST, index)
        for number, target in enumerate(route.forward or ()):
            if target.request_headers is not None:
                place = f"{field}.forward[{number}].request_headers"
                yield from _edits(place, target.request_headers, Place.REQUEST, index)
        if (respond := route.respond) is not None:
            media = respond.headers.get("content-type", "")
            yield WrittenText(f"{field}.respond.body", respond.body, Place.BODY, index, media)
            for name, value in respond.headers.items():
                yield WrittenText(f"{field}.respond.headers.{name}", value, Place.BODY, index)
        for key in ("host", "path", "to") if route.redirect is not None else ():
            if (address := getattr(route.redirect, key)) is not None:
                yield WrittenText(f"{field}.redirect.{key}", address, Place.REDIRECT, index)
        if route.auth is not None and route.auth.forward is not None and route.auth.forward.redirect_to is not None:
            yield WrittenText(f"{field}.auth.forward.redirect_to", route.auth.forward.redirect_to, Place.LOGIN, index)
        if route.response_headers is not None or route.error_pages is not None:
            yield from _shared(route, f"{field}.", index)


def _shared(of: TopologyModel | Route, field: str, route: int | None) -> Iterator[WrittenText]:
    """Those of fields that the topology and its routes have."""
    if of.response_headers is not None:
        yield from _edits(f"{field}response_headers", of.response_headers, Place.RESPONSE, route)
    if of.error_pages is not None:
        yield from _pages(f"{field}error_pages", of.error_pages, route)


def _pages(field: str, pages: ErrorPages, route: int | None) -> Iterator[WrittenText]:
    """Those in the topology; a file is literal."""
    for key, page in pages.items():
        if page.body is not None:
            yield WrittenText(f"{field}.{key}.body", page.body, Place.PAGE, route, page.content_type or "")


def _edits(field: str, edits: HeaderEdits, place: Place, route: int | None) -> Iterator[WrittenText]:
    for key, values in (("set", edits.set), ("add", edits.add)):
        for name, value in values.items():
            yield WrittenText(f"{field}.{key}.{name}", value, place, route)
