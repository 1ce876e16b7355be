"""Rules of an Application Load Balancer: conditions within its quotas, in the contract's order.

A rule holds at most five values to compare with, three of them in one condition, and five wildcards ("Condition types
for listener rules"); where a rule of the topology needs more it becomes several with the same action.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.plan.conditions import Condition, Cookie, Exact, Header, Method, OneOf, Present, Query, Regex, Source, Within
from lbgen.plan.model import HostPattern, Listener, Rule
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath

if TYPE_CHECKING:
    from lbgen.engines.document import Data

MOST_RULES = 100  # beside the default rule, of one load balancer; the quota can be raised
_MOST_VALUES, _MOST_OF_CONDITION, _MOST_WILDCARDS = 5, 3, 5
_LONGEST_VALUE, _LONGEST_NAME = 128, 40  # characters
_EVERYWHERE = ("/*",)
_SPECIAL = re.compile(r"[*?\\]")
_WILDCARD = re.compile(r"(?<!\\)[*?]")
# What a value of `host-header` is beside its wildcards: a name with a dot, and letters behind the last one.
_HOST = re.compile(r"[A-Za-z0-9.*-]+\.[A-Za-z]+")
# What a value of `path-pattern` may hold beside its wildcards.
PATH_CHARACTERS = re.compile(r"[A-Za-z0-9_.$/~\"'@:+&-]*")


class Test(Struct, frozen=True):
    """A condition: one of `values` must hold. `field` is that of the API, `name` that of a header; `by_regex`: the
    values are patterns."""

    field: str
    values: tuple[str | tuple[str, str], ...]
    name: str = ""
    by_regex: bool = False

    def data(self) -> dict[str, Data]:
        """As the API has it."""
        key = "RegexValues" if self.by_regex else "Values"
        values: Data = [{"Key": x[0], "Value": x[1]} if isinstance(x, tuple) else x for x in self.values]
        config: dict[str, Data] = {"HttpHeaderName": self.name} if self.name else {}
        return {"Field": self.field, _CONFIGS[self.field]: {**config, key: values}}

    @property
    def wildcards(self) -> int:
        """How many of its characters stand for others."""
        return 0 if self.by_regex else sum(len(_WILDCARD.findall(text)) for text in self._texts())

    def check(self) -> None:
        """ValueError where the API has no such value."""
        if len(self.name) > _LONGEST_NAME:
            raise ValueError(f"the name of a header in a condition has {_LONGEST_NAME} characters at most")
        for text in self._texts():
            if not 0 < len(text) <= _LONGEST_VALUE:
                raise ValueError(f"a value of a condition has 1 to {_LONGEST_VALUE} characters")
            if self.field == "host-header" and not _HOST.fullmatch(text):
                raise ValueError(f"a host in a condition has a dot and ends in letters, and {text} does not")

    def _texts(self) -> Iterator[str]:
        for value in self.values:
            yield from value if isinstance(value, tuple) else (value,)


_CONFIGS = {
    "host-header": "HostHeaderConfig",
    "path-pattern": "PathPatternConfig",
    "http-request-method": "HttpRequestMethodConfig",
    "http-header": "HttpHeaderConfig",
    "query-string": "QueryStringConfig",
    "source-ip": "SourceIpConfig",
}


def listener_rules(listener: Listener) -> list[Rule]:
    """The rules of a listener in the order of trial, up to one that takes every request."""
    every = {rule.id: rule for table in listener.hosts for rule in table.rules}
    found: list[Rule] = []
    for rule in sorted(every.values(), key=lambda rule: rule.rank):
        found.append(rule)
        if rule.host is None and rule.match.covers_all:
            break
    return found


def by_hosts(rules: Iterable[Rule]) -> Iterator[tuple[Rule, tuple[HostPattern, ...]]]:
    """Rules in the order of trial, neighbours that differ in their hosts alone as one: the first of them, and the hosts
    of all."""
    for (_, _, every), group in groupby(rules, lambda rule: (rule.route, rule.match, rule.host is None)):
        first, *others = group
        yield first, () if every else tuple(rule.host for rule in (first, *others) if rule.host is not None)


def tests(rule: Rule, hosts: Sequence[HostPattern]) -> list[Test]:
    """The conditions of a rule for these hosts (none: all); none for one that takes every request."""
    found = [Test("host-header", tuple(map(str, hosts)))] if hosts else []
    return [*found, *_path(rule.match.path), *(_test(each) for each in rule.match.conditions)]


def _path(path: Path) -> Iterator[Test]:
    if isinstance(path, ExactPath):
        yield Test("path-pattern", (path.value,))
    elif isinstance(path, PrefixPath):
        if not path.covers_all:
            yield Test("path-pattern", (path.value, f"{path.value}/*"))
    else:
        yield Test("path-pattern", (f"^(?:{path.value})$",), by_regex=True)


def _test(condition: Condition) -> Test:
    subject, operator = condition.subject, condition.operator
    if isinstance(operator, OneOf) and isinstance(subject, Method):
        return Test("http-request-method", operator.values)
    if isinstance(operator, Within) and isinstance(subject, Source):
        return Test("source-ip", operator.networks)
    if isinstance(subject, Query) and isinstance(operator, Exact | Present):
        wanted = _escape(operator.value) if isinstance(operator, Exact) else "?*"
        return Test("query-string", ((_escape(subject.name), wanted),))
    if isinstance(subject, Header):
        if isinstance(operator, Exact):
            return Test("http-header", (_escape(operator.value),), subject.name)
        if isinstance(operator, Present):
            return Test("http-header", ("^.+$",), subject.name, by_regex=True)
        if isinstance(operator, Regex):
            return Test("http-header", (f"^(?:{operator.value})$",), subject.name, by_regex=True)
    if isinstance(subject, Cookie) and isinstance(operator, Exact | Present):
        wanted = re.escape(operator.value) if isinstance(operator, Exact) else "[^; ]+"
        return Test(
            "http-header", (f"^(?:.*; *)?{re.escape(subject.name)}={wanted}(?:;.*)?$",), "cookie", by_regex=True
        )
    raise ValueError(f"a load balancer has no condition on {condition.field}")


def _escape(value: str) -> str:
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", value)


def within_quotas(wanted: Sequence[Test]) -> Iterator[tuple[Test, ...]]:
    """The same conditions as several lists, of which one must hold; each fits into a rule. ValueError where they fit
    into none, or the API has no such condition."""
    if not _fits(wanted):
        wanted = [_shortest(test) for test in wanted]
    for test in wanted:
        test.check()
    yield from _split(wanted)


def _fits(wanted: Sequence[Test]) -> bool:
    sizes = [len(test.values) for test in wanted]
    return (
        sum(sizes) <= _MOST_VALUES
        and max(sizes, default=0) <= _MOST_OF_CONDITION
        and sum(test.wildcards for test in wanted) <= _MOST_WILDCARDS
    )


def _shortest(test: Test) -> Test:
    """A prefix as one value: a pattern, which is harder to read than two."""
    if test.field != "path-pattern" or len(test.values) == 1:
        return test
    return Test(test.field, (f"^{re.escape(str(test.values[0]))}(/.*)?$",), by_regex=True)


def _split(wanted: Sequence[Test]) -> Iterator[tuple[Test, ...]]:
    if _fits(wanted):
        yield tuple(wanted)
        return
    largest = max(wanted, key=lambda test: len(test.values))
    total = sum(len(test.values) for test in wanted)
    if len(largest.values) == 1:
        wildcards = sum(test.wildcards for test in wanted)
        most = f"{_MOST_VALUES} values and {_MOST_WILDCARDS} wildcards"
        raise ValueError(f"a rule has {most} at most, and this one needs {total} and {wildcards}")
    size = min(_MOST_OF_CONDITION, max(1, _MOST_VALUES - (total - len(largest.values))), len(largest.values) - 1)
    for start in range(0, len(largest.values), size):
        part = Test(largest.field, largest.values[start : start + size], largest.name, largest.by_regex)
        yield from _split([part if test is largest else test for test in wanted])


def with_sources(wanted: Iterable[Test], networks: tuple[str, ...]) -> list[Test] | None:
    """`wanted`, and that the client is in one of `networks`; None where the rule already asks for its address."""
    found = list(wanted)
    if any(test.field == "source-ip" for test in found):
        return None
    return [*found, Test("source-ip", networks)]


def conditions(wanted: Iterable[Test]) -> list[Data]:
    """The conditions of one rule; a rule must have one."""
    found: list[Data] = [test.data() for test in wanted]
    return found or [Test("path-pattern", _EVERYWHERE).data()]
