"""nginx: regexes of header and cookie conditions."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.nginx.matching import value_regex
from lbgen.plan.conditions import Condition, Cookie, Exact, Header, Present, Regex


def holds(regex: str, value: str) -> bool:
    return re.match(regex.encode(), value.encode() + b"\n") is not None


@pytest.mark.parametrize(
    ("wanted", "value", "result"),
    [
        (Exact("b"), "a, b", True),
        (Exact("b"), "a ,b ,c", True),
        (Exact("b"), "ab", False),
        (Exact("a, b"), "a, b", True),
        (Exact("a, b"), "a, b, c", False),
        (Regex("b+"), "a, bb", True),
        (Regex("a.*c"), "a, b, c", True),
        (Regex("[^a]"), "a", False),
        (Regex(".*"), "", False),
        (Present(), "", False),
        (Present(), ", ", False),
        (Present(), ",", True),
        (Present(), "x", True),
    ],
)
def test_headers(wanted, value, result):
    assert holds("^" + value_regex(Condition(Header("x"), wanted)), value) is result


@pytest.mark.parametrize(
    ("wanted", "sent", "result"),
    [
        (Exact("a"), "=a", True),
        (Exact("a"), '="a" ', True),
        (Exact('"a"'), '=""a""', True),
        (Exact('"a"'), '="a"', False),
        (Exact("a;b"), "=a;b", False),
        (Regex(".+"), '=""', False),
        (Regex("a."), "=a ", False),
        (Present(), '=""', False),
        (Present(), "", False),
        (Present(), '="', True),
    ],
)
def test_cookies(wanted, sent, result):
    assert holds("^" + value_regex(Condition(Cookie("x"), wanted)), sent) is result
