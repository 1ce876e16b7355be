"""The texts of a topology in which placeholders may stand, each with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.spec.placeholders import Mention, split_text

if TYPE_CHECKING:
    from lbgen.spec.model import TopologyModel
    from lbgen.spec.route import HeaderEdits

Place = Enum("Place", "REQUEST RESPONSE BODY REDIRECT")


class WrittenText(Struct, frozen=True):
    """`route` is the number of its route, None for a text of the whole topology."""

    field: str
    text: str
    place: Place
    route: int | None = None

    @property
    def mentions(self) -> list[Mention]:
        """Its placeholders."""
        if "{" not in self.text:
            return []
        return [part for part in split_text(self.text) if isinstance(part, Mention)]


def written_texts(model: TopologyModel) -> Iterator[WrittenText]:
    """All of them, in the order of the models."""
    yield from _edits("response_headers", model.response_headers, Place.RESPONSE, None)
    for index, route in enumerate(model.routes):
        field = f"routes[{index}]"
        yield from _edits(f"{field}.request_headers", route.request_headers, Place.REQUEST, index)
        for number, target in enumerate(route.forward or ()):
            place = f"{field}.forward[{number}].request_headers"
            yield from _edits(place, target.request_headers, Place.REQUEST, index)
        yield from _edits(f"{field}.response_headers", route.response_headers, Place.RESPONSE, index)
        if (respond := route.respond) is not None:
            yield WrittenText(f"{field}.respond.body", respond.body, Place.BODY, index)
            for name, value in respond.headers.items():
                yield WrittenText(f"{field}.respond.headers.{name}", value, Place.BODY, index)
        for key in ("host", "path", "to") if route.redirect is not None else ():
            if (address := getattr(route.redirect, key)) is not None:
                yield WrittenText(f"{field}.redirect.{key}", address, Place.REDIRECT, index)


def _edits(field: str, edits: HeaderEdits | None, place: Place, route: int | None) -> Iterable[WrittenText]:
    if edits is None:
        return ()
    both = (("set", edits.set), ("add", edits.add))
    return [WrittenText(f"{field}.{key}.{n}", value, place, route) for key, pairs in both for n, value in pairs.items()]
