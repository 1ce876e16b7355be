"""What a rule asks of a request: a subject (method, header, ...) is a class, an operator on its value one.

The registries below name them as the fields of `lbgen/spec/match.py`. Precedence, shadowing, the oracle, probes, the
corpus and `verify` work from the methods of these classes, and each engine has a table from class to text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING, ClassVar, Self, get_args

from msgspec import Struct
from msgspec.structs import replace

from lbgen.plan.addresses import is_within
from lbgen.plan.path_conditions import PATHS, Path
from lbgen.plan.regex import matches_whole, regex_example
from lbgen.plan.request import Draft, ParsedRequest, to_wire

if TYPE_CHECKING:
    from lbgen.spec.match import Match as WrittenMatch
    from lbgen.spec.match import Unless as WrittenUnless

Values = Sequence[str]
Pairs = tuple[tuple[str, str], ...]


class Operator(Struct, frozen=True, tag=str.lower):
    """What is asked of a value, or of several of one name."""

    word: ClassVar[str]  # the field of the topology
    above: ClassVar[str] = ""  # the field of a match that its subject is in, and a dot
    reads_lists: ClassVar[bool] = True  # of a header, whether it may hold for one element of a list
    is_lasting: ClassVar[bool] = True  # whether further values cannot end it
    is_wide: ClassVar[bool] = True  # whether others may imply it
    implies_others: ClassVar[bool] = False

    @classmethod
    def of(cls, written: object) -> Self:
        """From the value in the topology."""
        return cls(*([written] if cls.__struct_fields__ else []))

    def accepts(self, value: str) -> bool:
        """Whether it holds for one value, as sent."""
        raise NotImplementedError

    def holds(self, values: Values) -> bool:
        """Whether it holds for all values of a name; there may be none."""
        return any(map(self.accepts, values))

    def implies(self, other: Operator) -> bool:
        """Whether `other` holds wherever this does; False where that is not certain."""
        return self == other

    def examples(self) -> tuple[str | None, ...]:
        """Values for which it holds, as text, None for no value; none where none was found."""
        raise NotImplementedError

    def counterexamples(self) -> tuple[str | None, ...]:
        """Values for which it may not hold, as text, None for no value."""
        return None, "lbgen", ""

    @property
    def weight(self) -> int:
        """In precedence: of two rules the one whose conditions on a subject weigh more is tried first."""
        return 1

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        """Lists of values around the value `hit`, just inside and just outside."""
        value = hit or "1"
        yield ()
        yield from (("",), (value + "x",), ("other", value), (value, "other"))

    def mismatch(self, what: str, values: Values) -> str:
        """Why it does not hold for these values of `what`, as a phrase."""
        return f"{what} is {', '.join(values)!r}, not {self}" if values else f"{what} is missing"


class Exact(Operator, frozen=True):
    word = "exact"
    is_wide = False
    implies_others = True

    value: str

    def __str__(self) -> str:
        return repr(self.value)

    def accepts(self, value: str) -> bool:
        return value == to_wire(self.value)

    def implies(self, other: Operator) -> bool:
        return self == other or (other.is_lasting and other.accepts(to_wire(self.value)))

    def examples(self) -> tuple[str | None, ...]:
        return (self.value,)

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        yield from super().neighbours(hit)
        if self.value.swapcase() != self.value:
            yield (self.value.swapcase(),)


class Regex(Operator, frozen=True):
    """Matches the whole value."""

    word = "regex"

    value: str

    def __str__(self) -> str:
        return f"regex {self.value!r}"

    def accepts(self, value: str) -> bool:
        return matches_whole(self.value, value)

    def examples(self) -> tuple[str | None, ...]:
        found = regex_example(self.value)
        return () if found is None else (found,)


class Present(Operator, frozen=True):
    """It is there and not empty."""

    word = "present"
    reads_lists = False

    def accepts(self, value: str) -> bool:
        return value != ""

    def examples(self) -> tuple[str | None, ...]:
        return ("1",)

    def mismatch(self, what: str, values: Values) -> str:
        return f"{what} is {'empty' if values else 'missing'}"


class Absent(Operator, frozen=True):
    """The opposite of Present: it is not there, or empty, which nginx cannot tell apart for headers."""

    word = "absent"
    reads_lists = False
    is_lasting = False

    def __str__(self) -> str:
        return "absent"

    def accepts(self, value: str) -> bool:
        return value == ""

    def holds(self, values: Values) -> bool:
        return all(map(self.accepts, values))

    def examples(self) -> tuple[str | None, ...]:
        return None, ""

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        yield from (("",), ("1",), ("1", "other"))


class OneOf(Operator, frozen=True):
    """One of these words."""

    word = ""
    implies_others = True

    values: tuple[str, ...]

    def accepts(self, value: str) -> bool:
        return value in self.values

    def implies(self, other: Operator) -> bool:
        return isinstance(other, OneOf) and set(self.values) <= set(other.values)

    def examples(self) -> tuple[str | None, ...]:
        return self.values

    def counterexamples(self) -> tuple[str | None, ...]:
        return "GET", "POST", "PUT", "DELETE", "PURGE"

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        yield from ((value,) for value in self.values if value != hit)
        yield from ((value,) for value in ("GET", "HEAD", "POST", "OPTIONS") if value not in self.values)

    def mismatch(self, what: str, values: Values) -> str:
        return f"{what} {' '.join(values)} is not {' or '.join(self.values)}"


class Within(Operator, frozen=True):
    """An address in one of these networks, which are in CIDR form."""

    word = ""
    implies_others = True

    networks: tuple[str, ...]

    @property
    def weight(self) -> int:
        return 1 + max(ip_network(each).prefixlen for each in self.networks)

    def accepts(self, value: str) -> bool:
        return is_within(value, self.networks)

    def implies(self, other: Operator) -> bool:
        if not isinstance(other, Within):
            return False
        wide = [ip_network(each) for each in other.networks]
        return all(any(_covers(each, ip_network(one)) for each in wide) for one in self.networks)

    def examples(self) -> tuple[str | None, ...]:
        return tuple(str(each[min(7, each.num_addresses - 1)]) for each in map(ip_network, self.networks))

    def counterexamples(self) -> tuple[str | None, ...]:
        """The addresses before and behind each network."""
        found = []
        for each in map(ip_network, self.networks):
            found += [str(each[0] - 1)] if int(each[0]) else []
            found += [str(each[-1] + 1)] if each[-1] != each.supernet(new_prefix=0)[-1] else []
        return tuple(each for each in found if not self.accepts(each))

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        for each in map(ip_network, self.networks):
            yield from ((str(each[0]),), (str(each[-1]),))
        yield from ((each,) for each in self.counterexamples() if each)

    def mismatch(self, what: str, values: Values) -> str:
        return f"{what} {values[0]} is not in {', '.join(self.networks)}"


ValueOperator = Exact | Regex | Present | Absent


class Not(Operator, frozen=True):
    """Another operator does not hold."""

    word = ""
    above = "unless."
    is_lasting = False
    implies_others = True

    operator: ValueOperator | OneOf | Within

    @property
    def reads_lists(self) -> bool:  # type: ignore[override]  # a value of the class elsewhere
        return self.operator.reads_lists

    def accepts(self, value: str) -> bool:
        return not self.operator.accepts(value)

    def holds(self, values: Values) -> bool:
        return not self.operator.holds(values)

    def implies(self, other: Operator) -> bool:
        return isinstance(other, Not) and other.operator.implies(self.operator)

    def examples(self) -> tuple[str | None, ...]:
        return tuple(each for each in self.operator.counterexamples() if self.holds(() if each is None else (each,)))

    def neighbours(self, hit: str | None) -> Iterator[tuple[str, ...]]:
        for each in self.operator.examples():
            yield () if each is None else (each,)
            yield from self.operator.neighbours(each)

    def mismatch(self, what: str, values: Values) -> str:
        return f"{what} is {', '.join(values)!r}, which is excluded" if values else f"{what} is missing"


AnyOperator = ValueOperator | OneOf | Within | Not


class Subject(Struct, frozen=True, tag=str.lower):
    """What a condition looks at."""

    word: ClassVar[str]  # the field of the topology
    label: ClassVar[str]
    is_client: ClassVar[bool] = False  # whether it is the client's address, which trusted proxies may state
    operators: ClassVar[tuple[type[AnyOperator], ...]] = get_args(ValueOperator)

    name: str = ""

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.label} {self.name}" if self.name else self.label

    def values(self, request: ParsedRequest) -> Values:
        """Its values in a request."""
        raise NotImplementedError

    def holds(self, operator: Operator, request: ParsedRequest) -> bool:
        return operator.holds(self.values(request))

    def write(self, draft: Draft, values: Values) -> Draft:
        """The draft with these values of it."""
        raise NotImplementedError


class Method(Subject, frozen=True):
    word = "methods"
    label = "method"
    operators = (OneOf,)

    def values(self, request: ParsedRequest) -> Values:
        return (request.method,)

    def write(self, draft: Draft, values: Values) -> Draft:
        return replace(draft, method=values[0])


class Header(Subject, frozen=True):
    """`name` is in lower case."""

    word = "headers"
    label = "header"

    def values(self, request: ParsedRequest) -> Values:
        return request.lines(self.name)

    def holds(self, operator: Operator, request: ParsedRequest) -> bool:
        """Several lines and one comma-separated list are the same thing (RFC 9110 5.3)."""
        lines = self.values(request)
        if not lines or not operator.reads_lists:
            return operator.holds(lines)
        combined = ", ".join(lines)
        return operator.holds((combined, *(each.strip(" \t") for each in combined.split(","))))

    def write(self, draft: Draft, values: Values) -> Draft:
        return replace(draft, headers=_with(draft.headers, self.name, values))


class Query(Subject, frozen=True):
    """The first parameter of that name."""

    word = "query"
    label = "query"

    @property
    def title(self) -> str:
        return f"query parameter {self.name}"

    def values(self, request: ParsedRequest) -> Values:
        return _some(request.parameter(to_wire(self.name)))

    def write(self, draft: Draft, values: Values) -> Draft:
        return replace(draft, query=_with(draft.query, self.name, values))


class Cookie(Subject, frozen=True):
    """The first cookie of that name."""

    word = "cookies"
    label = "cookie"

    def values(self, request: ParsedRequest) -> Values:
        return _some(request.cookie(to_wire(self.name)))

    def write(self, draft: Draft, values: Values) -> Draft:
        return replace(draft, cookies=_with(draft.cookies, self.name, values))


class Source(Subject, frozen=True):
    """The address of the client."""

    word = "sources"
    label = "source"
    is_client = True
    operators = (Within,)

    def values(self, request: ParsedRequest) -> Values:
        return (request.client,)

    def write(self, draft: Draft, values: Values) -> Draft:
        return replace(draft, client=values[0])


AnySubject = Method | Header | Query | Cookie | Source
SUBJECTS: tuple[type[AnySubject], ...] = get_args(AnySubject)
"""In the order of precedence: of two rules the one with more conditions on the first of them is tried first."""


class Condition(Struct, frozen=True):
    """What is asked of one part of a request."""

    subject: AnySubject
    operator: AnyOperator

    @property
    def kind(self) -> Kind:
        """The key of an engine's table."""
        return type(self.subject), type(self.operator)

    @property
    def field(self) -> str:
        """The place in a match of the topology."""
        name = f".{self.subject.name}" if self.subject.name else ""
        return f"{self.operator.above}{self.subject.word}{name}"

    def holds(self, request: ParsedRequest) -> bool:
        return self.subject.holds(self.operator, request)

    def mismatch(self, request: ParsedRequest) -> str:
        """Why it does not hold, as a phrase."""
        return self.operator.mismatch(self.subject.title, self.subject.values(request))

    def implies(self, other: Condition) -> bool:
        """Whether `other` holds for every request for which this does; False where that is not certain."""
        return self.subject == other.subject and self.operator.implies(other.operator)


Kind = type[Path] | tuple[type[AnySubject], type[AnyOperator]]


def _feature(subject: type[Subject], operator: type[Operator]) -> str:
    plain = operator is subject.operators[0]
    return f"match.{subject.word}" if plain else f"match.{subject.word}.{operator.word}"


FEATURES: Mapping[Kind, str] = {
    **{path: f"match.path.{path.word}" for path in PATHS},
    **{(subject, each): _feature(subject, each) for subject in SUBJECTS for each in subject.operators},
    **{(subject, Not): f"match.unless.{subject.word}" for subject in SUBJECTS},
}
"""The name of the feature that each condition uses."""


def features_of(subject: type[AnySubject]) -> list[str]:
    """The features of all conditions on one kind of subject."""
    return [name for kind, name in FEATURES.items() if isinstance(kind, tuple) and kind[0] is subject]


def read_conditions(written: WrittenMatch) -> Iterator[Condition]:
    """The other conditions of a match, by subject, in the order of the file."""
    yield from _read(written)
    if written.unless is not None:
        yield from (Condition(each.subject, _negated(each.operator)) for each in _read(written.unless))


def _negated(operator: AnyOperator) -> Not:
    return operator if isinstance(operator, Not) else Not(operator)


def _read(written: WrittenMatch | WrittenUnless) -> Iterator[Condition]:
    for subject in SUBJECTS:
        value = getattr(written, subject.word)
        if not value:
            continue
        if isinstance(value, Mapping):
            for name, asked in value.items():
                yield Condition(subject(name), _operator(subject, asked))
        else:
            yield Condition(subject(), subject.operators[0].of(tuple(dict.fromkeys(value))))


def _operator(subject: type[AnySubject], written: object) -> AnyOperator:
    given = [each for each in subject.operators if getattr(written, each.word) is not None]
    return given[0].of(getattr(written, given[0].word))


def with_conditions(draft: Draft, conditions: Iterable[Condition]) -> Draft | None:
    """The draft as the conditions want it; None where no value was found for one of them, or two exclude each other."""
    asked: dict[AnySubject, list[AnyOperator]] = {}
    for each in conditions:
        asked.setdefault(each.subject, []).append(each.operator)
    for subject, operators in asked.items():
        examples = [example for operator in operators for example in operator.examples()]
        lists = [() if each is None else (each,) for each in examples]
        values = next((each for each in lists if all(x.holds([*map(to_wire, each)]) for x in operators)), None)
        if values is None:
            return None
        draft = subject.write(draft, values)
    return draft


def _covers(wide: IPv4Network | IPv6Network, narrow: IPv4Network | IPv6Network) -> bool:
    return wide.version == narrow.version and wide.prefixlen <= narrow.prefixlen and narrow[0] in wide


def _some(value: str | None) -> Values:
    return () if value is None else (value,)


def _with(pairs: Pairs, name: str, values: Values) -> Pairs:
    """`pairs` with these values of `name`, at the place of the first that it has."""
    place = next((at for at, (each, _) in enumerate(pairs) if each == name), len(pairs))
    others = [pair for pair in pairs if pair[0] != name]
    return (*others[:place], *((name, value) for value in values), *others[place:])
