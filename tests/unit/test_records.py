"""What a record can do, and what it leaves out to be made quickly."""

from dataclasses import field, fields, replace

import pytest

from lbgen.records import record


@record
class Point:
    """A place."""

    x: int
    y: int = 0
    names: list[str] = field(default_factory=list)


def test_it_is_a_dataclass():
    point = Point(1, names=["a"])
    assert (point.x, point.y, point.names) == (1, 0, ["a"])
    assert [each.name for each in fields(point)] == ["x", "y", "names"]
    assert replace(point, y=2).y == 2
    with pytest.raises(TypeError):
        Point()


def test_it_has_no_other_fields():
    with pytest.raises(AttributeError):
        Point(1).z = 3


def test_two_of_the_same_fields_are_two():
    assert Point(1) != Point(1)
