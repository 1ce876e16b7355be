"""Records and dataclasses side by side: copies, and the names of fields."""

from dataclasses import dataclass

import pytest
from msgspec import Struct

from lbgen.records import defaults, field_names, replace


class Point(Struct, frozen=True):
    """A place."""

    x: int
    y: int = 0


@dataclass(frozen=True)
class Line:
    """Two places."""

    first: Point
    last: Point


def test_a_copy_of_either_has_the_other_values():
    line = Line(Point(1), Point(2))
    assert replace(line.first, y=3) == Point(1, 3)
    assert replace(line, last=Point(4)) == Line(Point(1), Point(4))


@pytest.mark.parametrize("data", [Point(1), Line(Point(1), Point(2))])
def test_a_copy_has_no_further_fields(data: object):
    with pytest.raises(TypeError, match="z"):
        replace(data, z=1)


def test_the_names_of_the_fields():
    assert field_names(Point) == ("x", "y")
    assert field_names(Line) == ("first", "last")
    assert field_names(int) is None


def test_the_defaults_of_the_fields():
    assert defaults(Point) == {"y": 0}
    assert defaults(Line) == {}
