"""nginx: regexes of header and cookie conditions."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.nginx import matching
from lbgen.plan.model import ValueKind, ValueMatch


def holds(regex: str, value: str) -> bool:
    return re.match(regex.encode(), value.encode() + b"\n") is not None


@pytest.mark.parametrize(
    ("wanted", "value", "result"),
    [
        (ValueMatch(ValueKind.EXACT, "b"), "a, b", True),
        (ValueMatch(ValueKind.EXACT, "b"), "a ,b ,c", True),
        (ValueMatch(ValueKind.EXACT, "b"), "ab", False),
        (ValueMatch(ValueKind.EXACT, "a, b"), "a, b", True),
        (ValueMatch(ValueKind.EXACT, "a, b"), "a, b, c", False),
        (ValueMatch(ValueKind.REGEX, "b+"), "a, bb", True),
        (ValueMatch(ValueKind.REGEX, "a.*c"), "a, b, c", True),
        (ValueMatch(ValueKind.REGEX, "[^a]"), "a", False),
        (ValueMatch(ValueKind.REGEX, ".*"), "", False),
        (ValueMatch(ValueKind.PRESENT), "", False),
        (ValueMatch(ValueKind.PRESENT), ", ", False),
        (ValueMatch(ValueKind.PRESENT), ",", True),
        (ValueMatch(ValueKind.PRESENT), "x", True),
    ],
)
def test_headers(wanted, value, result):
    assert holds("^" + matching.header_regex(wanted), value) is result


@pytest.mark.parametrize(
    ("wanted", "sent", "result"),
    [
        (ValueMatch(ValueKind.EXACT, "a"), "=a", True),
        (ValueMatch(ValueKind.EXACT, "a"), '="a" ', True),
        (ValueMatch(ValueKind.EXACT, '"a"'), '=""a""', True),
        (ValueMatch(ValueKind.EXACT, '"a"'), '="a"', False),
        (ValueMatch(ValueKind.EXACT, "a;b"), "=a;b", False),
        (ValueMatch(ValueKind.REGEX, ".+"), '=""', False),
        (ValueMatch(ValueKind.REGEX, "a."), "=a ", False),
        (ValueMatch(ValueKind.PRESENT), '=""', False),
        (ValueMatch(ValueKind.PRESENT), "", False),
        (ValueMatch(ValueKind.PRESENT), '="', True),
    ],
)
def test_cookies(wanted, sent, result):
    assert holds("^" + matching.cookie_regex(wanted), sent) is result
